"""A key may run the models that its patterns match."""

from collections.abc import Callable

import msgspec
import pytest

from common import ids
from services.gateway.auth.model_permissions import check_model, may_run, select_models
from services.gateway.auth.store import Key
from services.gateway.http.problems import Problem
from services.gateway.jobs.idempotency.repeated_request import parse_replay
from services.gateway.jobs.parse import SubmitContext, parse_job
from services.gateway.jobs.submit import Submitter
from tests.unit.gateway.parsing import TRACEPARENT

REFUSED = "this call needs a key for the model 'echo'; the key has 'ocr*', 'llm'"
PATTERNS = ("ocr*", "llm")


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("o*r", ["or", "ocr"], ["ocr2"]),
        ("o?r", ["ocr"], ["or"]),
        ("[ab]", ["a", "b"], ["c", "ab"]),
        ("[a-c]", ["b"], ["-"]),
        ("[!ab]", ["c"], ["a"]),
    ],
)
def test_patterns_match_what_the_reference_says(pattern: str, matched: list[str], others: list[str]) -> None:
    assert [each for each in [*matched, *others] if may_run([pattern], each)] == matched


@pytest.mark.parametrize(
    ("model", "expected"), [("ocr", True), ("ocr_stream", True), ("llm", True), ("llm2", False), ("OCR", False)]
)
def test_a_pattern_matches_the_whole_name(model: str, expected: bool) -> None:
    assert may_run(PATTERNS, model) is expected
    assert may_run(None, model)


def test_the_error_names_the_model_and_what_is_allowed() -> None:
    with pytest.raises(Problem) as raised:
        check_model(PATTERNS, "echo")
    assert (raised.value.status, raised.value.code, raised.value.detail) == (403, "forbidden", REFUSED)


def test_only_allowed_models_are_selected() -> None:
    models = dict.fromkeys(["ocr", "ocr_stream", "echo"], 1)
    assert list(select_models(PATTERNS, models)) == ["ocr", "ocr_stream"]
    assert select_models(None, models) is models


@pytest.mark.parametrize("parse", [parse_job, parse_replay])
@pytest.mark.parametrize(("model", "fallback"), [("echo", None), ("ocr", "echo"), ("unknown", None)])
async def test_a_submit_for_another_model_is_refused(
    submitter: Submitter, parse: Callable[[bytes, SubmitContext], object], model: str, fallback: str | None
) -> None:
    context = await submitter.make_context(Key(ids.new(), ids.new(), models=PATTERNS), TRACEPARENT)
    body = msgspec.json.encode({"model": model, "inputs": {"x": [1]}, "fallback_model": fallback})
    with pytest.raises(Problem) as raised:
        parse(body, context)
    assert (raised.value.status, raised.value.code) == (403, "forbidden")


async def test_an_unknown_model_does_not_reveal_those_that_are_not_allowed(submitter: Submitter) -> None:
    context = await submitter.make_context(Key(ids.new(), ids.new(), models=("none*",)), TRACEPARENT)
    with pytest.raises(Problem, match="not found") as raised:
        await submitter.parse(msgspec.json.encode({"model": "none", "inputs": {"x": [1]}}), context)
    assert "echo" not in raised.value.detail
