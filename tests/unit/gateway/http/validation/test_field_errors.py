"""Every mistake in a body is explained, in words of the API."""

from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.gateway.http.bodies import SYNTAX_ERRORS, TWICE, decode_body
from services.gateway.http.problems import MAX_ERRORS, FieldError, Problem
from services.gateway.http.validation.field_errors import find_errors, read_type
from services.gateway.http.validation.json_syntax import explain_syntax
from services.gateway.http.validation.suggestions import say_unknown, suggest
from services.gateway.jobs.schemas import RetryJob, SubmitJob
from services.gateway.webhooks.schemas import ChangeWebhook, CreateWebhook

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
FIELDS = sorted({*SubmitJob.__struct_encode_fields__, *CreateWebhook.__struct_encode_fields__, "max_attempts", "url"})
BODIES = VALUES | st.dictionaries(st.sampled_from(FIELDS), VALUES | st.dictionaries(st.sampled_from(FIELDS), VALUES))


def refuse(body: Any, kind: Any = SubmitJob) -> list[tuple[str, str]]:
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    with pytest.raises(Problem) as refused:
        decode_body(content, kind)
    return [(error.pointer, error.detail) for error in refused.value.errors]


def test_every_mistake_is_reported_in_its_place() -> None:
    body = {"model": 5, "input": {}, "priority": "hgh", "timeout": -1, "retry": {"max_attempts": 0}, "retain": "1"}
    assert refuse(body) == [
        ("/model", "must be a string, got 5"),
        ("/input", "unknown field `input`; did you mean `inputs`?"),
        ("/priority", "must be one of high, normal, low; got 'hgh'; did you mean 'high'?"),
        ("/timeout", "must be at least 0.001 seconds, got -1"),
        ("/retry/max_attempts", "must be at least 1, got 0"),
        ("/retain", "must be a number of seconds from 1 to 31536000, got '1'"),
        ("/inputs", "is missing; it must be an object or a list"),
    ]


def test_no_more_mistakes_are_reported_than_fit() -> None:
    assert len(refuse({f"field{number}": 1 for number in range(1000)})) == MAX_ERRORS


@pytest.mark.parametrize("kind", [SubmitJob, CreateWebhook, ChangeWebhook])
@settings(max_examples=40)  # of each kind
@given(body=BODIES)
def test_whatever_is_refused_is_explained(kind: Any, body: Any) -> None:
    problem = None
    try:
        decode_body(msgspec.json.encode(body), kind)
    except Problem as refused:
        problem = refused
    assert problem is None or problem.errors
    assert problem is None or TWICE not in problem.detail


def test_a_name_that_is_given_twice_is_named() -> None:
    assert refuse(b'{"model": 5, "model": "echo", "inputs": {}}') == [("/model", TWICE)]


def test_a_field_that_takes_any_value_has_no_wrong_example() -> None:
    tensor = {"name": "x", "shape": [1], "datatype": "FP32"}
    assert refuse({"model": "echo", "inputs": [tensor]}) == [("/inputs/0/data", "is missing")]
    ((_, text),) = refuse({"model": "echo", "inputs": [1]})
    assert '"data": […]}' in text


def test_known_fields_are_listed_although_all_are_given() -> None:
    assert refuse({"target_model": "echo", "x": 1}, RetryJob) == [
        ("/x", "unknown field `x`; known fields: target_model")
    ]


@pytest.mark.parametrize("text", ["nan", "inf", "1_0", "\uff11", " 1", "0x10", ""])
def test_a_parameter_that_is_no_number_is_explained(text: str) -> None:
    kind = read_type(Annotated[float, msgspec.Meta(ge=0, le=60)])
    (found,) = find_errors(text, kind, "wait", is_text=True)
    assert found == FieldError("wait", f"must be a number of seconds from 0 to 60, got '{text}'")


def test_a_mistake_does_not_hide_that_the_body_is_cut() -> None:
    with pytest.raises(Problem, match="ends too early"):
        decode_body(b'{"model": 5, "inputs": {', SubmitJob)


@pytest.mark.parametrize(
    ("text", "half"),
    [
        (b"a\\ud800b", b"\\ud800b"),
        (b"none\\uD800", b"\\uD800"),
        (b"\\ud83d\\ude00 \\udbff\\n", b"\\udbff\\n"),
        (b"a\\udc00b", None),  # the decoder says the place itself
        (b"\\\\ud800 \\ud800x", b"\\ud800x"),  # an escaped backslash comes before it
    ],
)
def test_half_of_a_surrogate_pair_is_named(text: bytes, half: bytes | None) -> None:
    with pytest.raises(Problem, match="is half of a surrogate pair; send both halves") as raised:
        decode_body(b'{"model": "' + text + b'"}', SubmitJob)
    assert half is None or f"at `{half.decode()}" in raised.value.detail


@given(body=st.binary() | st.text(alphabet='{}[]":,\\ntfu0123e.-+/\n ').map(str.encode))
def test_whatever_is_no_json_has_a_place_or_a_cause(body: bytes) -> None:
    error = None
    try:
        msgspec.json.decode(body)
    except SYNTAX_ERRORS as found:
        error = found
    assert error is None or explain_syntax(body, error)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("ehco", "echo"), ("OCR", "ocr"), ("ocr-stream", "ocr_stream"), ("resnet", None), ("e" * 10**7, None)],
)
def test_the_closest_name_is_suggested(name: str, meant: str | None) -> None:
    assert suggest(name, ["echo", "ocr", "ocr_stream"]) == meant


def test_only_some_of_many_names_are_listed() -> None:
    assert say_unknown("field", "x", [f"name{number:03}" for number in range(100)]).endswith("name029 and 70 more")
