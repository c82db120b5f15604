"""From a job's tensors to Triton's request, and from its responses to the answer."""

from collections.abc import AsyncIterator
from typing import cast

import msgspec
import pytest
from opentelemetry.trace import get_current_span, use_span

from common import tensors, tracing
from common.tensors import Datatype, Signature, Tensor
from services.dispatcher.inference import Answer, Question, Tell, build_request, infer
from services.dispatcher.triton import InferenceError, Model, Response, Triton

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


class FakeTriton:
    """Answers with these responses."""

    def __init__(self, *responses: list[Tensor]) -> None:
        self.responses = responses
        self.max_message = 1000
        self.read = 0
        self.metadata: object = None

    async def infer(self, _request: object, metadata: object) -> AsyncIterator[Response]:
        self.metadata = metadata
        for response in self.responses:
            self.read += 1
            yield Response("2", response)


async def ask(triton: FakeTriton, asked: Model, tell: Tell | None = None) -> Answer:
    return await infer(cast("Triton", triton), question(X), asked, tell)


async def test_an_answer_is_rendered_as_the_list_of_the_api() -> None:
    found = await ask(FakeTriton(answer(7, 8)), model(decoupled=False))
    assert found.version == "2"
    assert msgspec.json.decode(found.outputs) == [{"name": "y", "datatype": "UINT8", "shape": [2], "data": [7, 8]}]


async def test_streamed_responses_keep_their_order_and_number_and_are_told_as_they_come() -> None:
    told: list[bytes] = []
    triton = FakeTriton(answer(7), [], answer(8))

    async def tell(response: bytes) -> None:
        assert triton.read == len(told) + 1
        told.append(response)

    found = await ask(triton, model(decoupled=True), tell)
    outputs = msgspec.json.decode(found.outputs)
    assert [(each["response"], each["data"]) for each in outputs] == [(0, [7]), (2, [8])]
    assert [msgspec.json.decode(each) for each in told] == [outputs[:1], [], outputs[1:]]


async def test_a_stream_may_end_without_an_answer() -> None:
    assert (await ask(FakeTriton(), model(decoupled=True))).outputs == b"[]"


@pytest.mark.parametrize(
    ("responses", "decoupled", "text"),
    [([], False, "without an answer"), ([[]], False, "'y'"), ([answer(1), [X], answer(2)], True, "'x'")],
    ids=["none", "incomplete", "undeclared"],
)
async def test_an_answer_other_than_declared_is_refused_once_it_is_read(
    responses: list[list[Tensor]], decoupled: bool, text: str
) -> None:
    triton = FakeTriton(*responses)
    told: list[bytes] = []

    async def tell(response: bytes) -> None:
        told.append(response)

    with pytest.raises(InferenceError, match=text) as caught:
        await ask(triton, model(decoupled=decoupled), tell)
    assert caught.value.failure.code == "invalid_output"
    assert triton.read == len(responses)
    assert len(told) == (1 if decoupled else 0)


async def test_responses_have_a_bound_together() -> None:
    with pytest.raises(InferenceError) as caught:
        await ask(FakeTriton(*[answer(*range(250))] * 5), model(decoupled=True))
    assert caught.value.failure.code == "too_large"


@pytest.mark.parametrize("flags", ["00", "01"])
async def test_triton_gets_a_traceparent_only_where_the_trace_is_sampled(flags: str) -> None:
    traceparent = f"00-{'a' * 32}-{'b' * 16}-{flags}"
    triton = FakeTriton(answer(7))
    with use_span(get_current_span(tracing.context_of(traceparent))):
        await ask(triton, model(decoupled=False))
    assert triton.metadata == ([("traceparent", traceparent)] if flags == "01" else [])
