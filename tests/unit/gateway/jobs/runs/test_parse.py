"""A request whose model is a pipeline becomes a run."""

from typing import Any

import msgspec
import pytest

from common import ids, tensors
from common.pipelines.run_state import begin, decode
from common.security.ssrf import AddressPolicy
from common.tensors import FileContent
from services.gateway.http.problems import Problem
from services.gateway.jobs.parse import SubmitContext, parse_job
from services.gateway.jobs.runs.parse import NeedsPipeline, to_runnable
from services.gateway.models.pipeline_store import PipelineKey
from tests.unit.gateway.parsing import MODEL, TRACEPARENT
from tests.unit.gateway.stored_pipelines import new_stored

CHAIN, ECHO = PipelineKey("chain"), {"echo": [MODEL]}
KNOWN = {CHAIN: to_runnable(new_stored())}
INPUTS = {"x": [1.0], "rows": [[1.0, 2.0]]}


def parse(known: Any = KNOWN, max_inline: int = 1000, **fields: Any) -> Any:
    context = SubmitContext(
        ids.new(), TRACEPARENT, ECHO, AddressPolicy(), max_inline=max_inline, pipelines=known, max_tensor=1000
    )
    return parse_job(msgspec.json.encode({"model": "chain", "inputs": INPUTS} | fields), context)


def test_a_run_has_the_version_of_the_pipeline_and_all_steps_wait() -> None:
    run = parse()
    assert (run.model, run.version, run.max_attempts, run.timeout) == ("chain", "3", 1, 86_400.0)
    assert decode(run.run_state) == begin(["first", "each"])


def test_a_timeout_of_its_own_is_that_of_the_run() -> None:
    assert parse(timeout=600).timeout == 600.0
    assert parse(model="echo", inputs={"x": [1.0]}).timeout == 600.0


def test_only_a_name_that_is_no_model_is_looked_up() -> None:
    assert not parse(known={}, model="echo", inputs={"x": [1.0]}).is_run
    assert not parse(known=KNOWN | {PipelineKey("echo"): KNOWN[CHAIN]}, model="echo", inputs={"x": [1.0]}).is_run
    for version in (None, "2"):
        with pytest.raises(NeedsPipeline) as needed:
            parse(known={}, version=version)
        assert needed.value.key == PipelineKey("chain", version)


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ({PipelineKey("chain", "7"): None, CHAIN: None}, "model 'chain' not found"),
        (KNOWN | {PipelineKey("chain", "7"): None}, "pipeline 'chain' has no version '7'; its newest version is '3'"),
    ],
)
def test_an_unknown_name_or_version_is_not_found(known: Any, text: str) -> None:
    with pytest.raises(Problem, match=text) as caught:
        parse(known=known, version="7")
    assert caught.value.status == 404


def test_what_a_pipeline_does_not_take_is_refused_with_advice() -> None:
    with pytest.raises(Problem) as caught:
        parse(
            retry={"max_attempts": 2},
            fallback_model="other",
            parameters={"a": 1},
            expires_in=5,
            output={"location": "s3://bucket/out/"},
        )
    refused = {error.pointer: error.detail for error in caught.value.errors}
    assert [*refused] == ["/retry", "/fallback_model", "/parameters", "/expires_in", "/output/location"]
    assert refused["/expires_in"] == "a pipeline does not take this; set `timeout`, in which the run must end"


def test_an_input_whose_elements_are_steps_may_be_a_file() -> None:
    run = parse(inputs={"x": [1.0] * 3, "rows": [[1.0, 2.0]]}, max_inline=7)
    assert isinstance({tensor.name: tensor.data for tensor in tensors.unpack(run.tensors)}["rows"], FileContent)


def test_an_input_whose_elements_are_steps_may_not_be_at_a_url() -> None:
    with pytest.raises(Problem) as caught:
        parse(inputs={"x": [1.0], "rows": {"url": "https://example.com/rows", "shape": [1, 2]}})
    assert [error.pointer for error in caught.value.errors] == ["/inputs/rows"]


def test_inputs_are_checked_as_those_of_a_model() -> None:
    with pytest.raises(Problem) as caught:
        parse(inputs={"x": [1.0], "rows": [[1.0]]})
    assert [error.pointer for error in caught.value.errors] == ["/inputs/rows"]
