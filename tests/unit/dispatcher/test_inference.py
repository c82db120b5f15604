"""From a job's tensors to Triton's request, and from its responses to the answer."""

import msgspec
import pytest

from common import tensors
from common.tensors import Datatype, Signature, Tensor
from services.dispatcher.inference import Question, build_request, render
from services.dispatcher.tensors import BadOutput
from services.dispatcher.triton import Model

X = Tensor("x", Datatype.FP32, [1, 2], bytes(8))
TEXT = Tensor("text", Datatype.BYTES, [1], b"\x02\x00\x00\x00\xff\x00")


def question(*given: Tensor, version: str | None = None, parameters: bytes | None = None) -> Question:
    return Question("job_1", "echo", version, tensors.pack(list(given)), parameters, 10.0)


def model(*, decoupled: bool) -> Model:
    return Model("echo", "1", decoupled, 0, 1, [], [Signature("y", Datatype.UINT8, [-1])])


def answer(*values: int) -> list[Tensor]:
    return [Tensor("y", Datatype.UINT8, [len(values)], bytes(values))]


def test_a_request_carries_the_tensors_byte_for_byte_and_the_id() -> None:
    request = build_request(question(X, TEXT, version="3"))
    assert (request.model_name, request.model_version, request.id) == ("echo", "3", "job_1")
    assert [(each.name, each.datatype, list(each.shape)) for each in request.inputs] == [
        ("x", "FP32", [1, 2]),
        ("text", "BYTES", [1]),
    ]
    assert list(request.raw_input_contents) == [X.data, TEXT.data]


def test_without_a_version_triton_chooses() -> None:
    assert build_request(question(X)).model_version == ""


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (True, "bool_param"),
        (False, "bool_param"),
        (1, "int64_param"),
        (-(2**63), "int64_param"),
        (1.0, "double_param"),
        ("1", "string_param"),
    ],
)
def test_a_parameter_keeps_its_type(value: bool | int | float | str, field: str) -> None:
    request = build_request(question(X, parameters=msgspec.json.encode({"p": value})))
    parameter = request.parameters["p"]
    assert parameter.WhichOneof("parameter_choice") == field
    assert getattr(parameter, field) == value


def test_an_answer_is_rendered_as_the_list_of_the_api() -> None:
    assert msgspec.json.decode(render([answer(7, 8)], model(decoupled=False))) == [
        {"name": "y", "datatype": "UINT8", "shape": [2], "data": [7, 8]}
    ]


def test_streamed_responses_keep_their_order_and_number() -> None:
    found = msgspec.json.decode(render([answer(7), answer(8)], model(decoupled=True)))
    assert [(each["response"], each["data"]) for each in found] == [(0, [7]), (1, [8])]


def test_a_stream_may_end_without_an_answer() -> None:
    assert render([], model(decoupled=True)) == b"[]"


def test_a_model_that_ends_without_its_answer_is_refused() -> None:
    with pytest.raises(BadOutput, match="without an answer"):
        render([], model(decoupled=False))


def test_an_answer_other_than_declared_is_refused() -> None:
    with pytest.raises(BadOutput, match="'y'"):
        render([[]], model(decoupled=False))
