"""A job's tensors become Triton's request; its responses become the result."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import msgspec
import pytest
from opentelemetry.trace import get_current_span, use_span

from common import tensors
from common.telemetry import tracing
from common.tensors import Datatype, Signature, Tensor
from common.views.outputs import OutputTensor
from services.dispatcher.triton import quarantine as quarantine_module
from services.dispatcher.triton.client import Response, TritonClient
from services.dispatcher.triton.errors import InferenceError
from services.dispatcher.triton.inference import OnResponse, infer
from services.dispatcher.triton.model_usage import ModelUsage
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.quarantine import Quarantine
from services.dispatcher.triton.request import InferenceRequest, build_request
from services.dispatcher.triton.responses import InferenceResult
from services.dispatcher.triton.tensors import Rendered
from tests.unit.clock import LATE

X = Tensor("x", Datatype.FP32, [1, 2], bytes(8))
MAX_OUTPUTS = 1000  # bytes
TEXT = Tensor("text", Datatype.BYTES, [1], b"\x02\x00\x00\x00\xff\x00")


def make_request(*given: Tensor, version: str | None = None, parameters: bytes | None = None) -> InferenceRequest:
    return InferenceRequest("job_1", "echo", version, tensors.pack(list(given)), parameters, 10.0, MAX_OUTPUTS)


def model(*, decoupled: bool) -> ModelVersion:
    return ModelVersion("echo", "1", decoupled, 0, 1, [], [Signature("y", Datatype.UINT8, [-1])])


def response(*values: int) -> list[OutputTensor]:
    return [OutputTensor("y", Datatype.UINT8, [len(values)], bytes(values))]


def test_a_request_carries_the_tensors_byte_for_byte_and_the_id() -> None:
    request = build_request(make_request(X, TEXT, version="3"))
    assert (request.model_name, request.model_version, request.id) == ("echo", "3", "job_1")
    assert [(each.name, each.datatype, list(each.shape)) for each in request.inputs] == [
        ("x", "FP32", [1, 2]),
        ("text", "BYTES", [1]),
    ]
    assert list(request.raw_input_contents) == [X.data, TEXT.data]


def test_without_a_version_triton_chooses() -> None:
    assert build_request(make_request(X)).model_version == ""


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
    request = build_request(make_request(X, parameters=msgspec.json.encode({"p": value})))
    parameter = request.parameters["p"]
    assert parameter.WhichOneof("parameter_choice") == field
    assert getattr(parameter, field) == value


class FakeTriton(TritonClient):
    """Returns these responses."""

    def __init__(self, *responses: list[OutputTensor]) -> None:
        self.responses = responses
        self.max_message = 1000
        self.read = 0
        self.metadata: object = None
        self.quarantine = Quarantine()
        self.hangs = False  # after the last response
        self.stalled = False

    async def stalled_since(self, _moment: float) -> bool:
        return self.stalled

    async def infer(self, _request: object, metadata: object) -> AsyncGenerator[Response, None]:
        self.metadata = metadata
        for response in self.responses:
            self.read += 1
            yield Response("2", response)
        if self.hangs:
            await asyncio.Event().wait()


async def run(triton: FakeTriton, declared: ModelVersion, on_response: OnResponse | None = None) -> InferenceResult:
    return await infer(triton, make_request(X), declared, on_response)


async def test_a_response_is_rendered_as_the_list_of_the_api() -> None:
    found = await run(FakeTriton(response(7, 8)), model(decoupled=False))
    assert found.version == "2"
    assert msgspec.json.decode(found.outputs) == [{"name": "y", "datatype": "UINT8", "shape": [2], "data": [7, 8]}]


async def test_streamed_responses_keep_their_order_and_number_and_are_passed_on_as_they_arrive() -> None:
    passed_on: list[bytes] = []
    triton = FakeTriton(response(7), [], response(8))

    async def on_response(response: Rendered) -> None:
        assert triton.read == len(passed_on) + 1
        passed_on.append(response.json)

    found = await run(triton, model(decoupled=True), on_response)
    outputs = msgspec.json.decode(found.outputs)
    assert [(each["response"], each["data"]) for each in outputs] == [(0, [7]), (2, [8])]
    assert [msgspec.json.decode(each) for each in passed_on] == [outputs[:1], [], outputs[1:]]


async def test_the_result_of_a_language_model_has_what_all_responses_say_of_their_tokens() -> None:
    tokens = [Signature("num_output_tokens", Datatype.UINT8, [-1])]
    said = [OutputTensor("num_output_tokens", Datatype.UINT8, [1], bytes([2]))]
    silent = msgspec.structs.replace(model(decoupled=True), outputs=tokens)
    speaking = msgspec.structs.replace(silent, settings={"charonia.openai": "vllm"})
    assert (await run(FakeTriton(said, said), speaking)).usage == ModelUsage(None, 4)
    assert (await run(FakeTriton(said, said), silent)).usage == ModelUsage()


async def test_a_stream_may_end_without_a_response() -> None:
    assert (await run(FakeTriton(), model(decoupled=True))).outputs == b"[]"


@pytest.mark.parametrize(
    ("responses", "decoupled", "text"),
    [([], False, "without a response"), ([[]], False, "'y'"), ([response(1), [X], response(2)], True, "'x'")],
    ids=["none", "incomplete", "undeclared"],
)
async def test_a_response_other_than_declared_fails_once_the_stream_is_read(
    responses: list[list[OutputTensor]], decoupled: bool, text: str
) -> None:
    triton = FakeTriton(*responses)
    passed_on: list[bytes] = []

    async def on_response(response: Rendered) -> None:
        passed_on.append(response.json)

    with pytest.raises(InferenceError, match=text) as caught:
        await run(triton, model(decoupled=decoupled), on_response)
    assert caught.value.failure.code == "invalid_output"
    assert triton.read == len(responses)
    assert len(passed_on) == (1 if decoupled else 0)


async def test_the_total_size_of_the_responses_is_limited() -> None:
    with pytest.raises(InferenceError) as caught:
        await run(FakeTriton(*[response(*range(250))] * 5), model(decoupled=True))
    assert caught.value.failure.code == "too_large"


@pytest.mark.parametrize(("decoupled", "read"), [(False, 2), (True, 1)])
async def test_outputs_too_large_as_json_fail_after_their_stream_unless_it_may_never_end(
    decoupled: bool, read: int
) -> None:
    triton = FakeTriton(response(*range(250)), response(1))
    request = msgspec.structs.replace(make_request(X), max_outputs=500)
    with pytest.raises(InferenceError, match="500 bytes as JSON") as caught:
        await infer(triton, request, model(decoupled=decoupled))
    assert (caught.value.failure.code, triton.read) == ("too_large", read)


async def test_the_json_of_all_responses_together_is_limited() -> None:
    request = msgspec.structs.replace(make_request(X), max_outputs=200)
    with pytest.raises(InferenceError) as caught:
        await infer(FakeTriton(*[response(1)] * 5), request, model(decoupled=True))
    assert caught.value.failure.code == "too_large"


@pytest.mark.parametrize("flags", ["00", "01"])
async def test_triton_gets_a_traceparent_only_if_the_trace_is_sampled(flags: str) -> None:
    traceparent = f"00-{'a' * 32}-{'b' * 16}-{flags}"
    triton = FakeTriton(response(7))
    with use_span(get_current_span(tracing.to_context(traceparent))):
        await run(triton, model(decoupled=False))
    assert triton.metadata == ([("traceparent", traceparent)] if flags == "01" else [])


@pytest.mark.parametrize("stalled", [False, True])
async def test_a_timeout_is_an_outage_if_the_server_stalled(stalled: bool) -> None:
    triton = FakeTriton()
    triton.hangs, triton.stalled = True, stalled
    request = InferenceRequest("job_1", "echo", None, tensors.pack([X]), None, timeout=0.01, max_outputs=1024)
    with pytest.raises(InferenceError) as caught:
        await infer(triton, request, model(decoupled=False))
    assert (caught.value.failure.code, caught.value.outage, caught.value.refused) == ("timeout", stalled, False)


@pytest.mark.parametrize(
    ("spent", "stalled", "code"),
    [(0.4, False, "timeout"), (0.99, False, "input_timeout"), (1.5, False, "input_timeout"), (0.99, True, "timeout")],
)
async def test_a_timeout_after_a_long_read_is_not_the_models(spent: float, stalled: bool, code: str) -> None:
    triton = FakeTriton()
    triton.hangs, triton.stalled = True, stalled
    request = msgspec.structs.replace(make_request(X), timeout=0.1, message=b"", spent=0.1 * spent)
    with pytest.raises(InferenceError) as caught:
        await asyncio.wait_for(infer(triton, request, model(decoupled=False)), LATE)
    assert (caught.value.failure.code, caught.value.outage) == (code, stalled)


async def test_an_attempt_ends_soon_after_its_model_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine_module, "INTERRUPT_SECONDS", 0.0)
    triton = FakeTriton(response(7))
    triton.hangs = True

    async def on_response(_response: Rendered) -> None:
        triton.quarantine.add("echo")

    with pytest.raises(InferenceError) as caught:
        await asyncio.wait_for(run(triton, model(decoupled=True), on_response), LATE)
    assert (caught.value.failure.code, caught.value.outage, caught.value.refused) == ("model_crashed", True, False)


async def test_a_wait_for_the_store_is_no_timeout() -> None:
    triton = FakeTriton(response(7), response(8))
    later = asyncio.get_running_loop().time() + 0.5  # a timeout would be over by then

    async def on_response(_response: Rendered) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(later):
                await asyncio.Event().wait()

    request = msgspec.structs.replace(make_request(X), timeout=0.3)
    found = await infer(triton, request, model(decoupled=True), on_response)
    assert len(msgspec.json.decode(found.outputs)) == 2


async def test_the_timeout_counts_again_after_a_wait() -> None:
    triton = FakeTriton(response(7))
    triton.hangs = True

    async def on_response(_response: Rendered) -> None:
        await asyncio.sleep(0)

    request = msgspec.structs.replace(make_request(X), timeout=0.1)
    with pytest.raises(InferenceError) as caught:
        await asyncio.wait_for(infer(triton, request, model(decoupled=True), on_response), LATE)
    assert caught.value.failure.code == "timeout"


async def test_a_stall_interrupts_a_wait_for_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine_module, "INTERRUPT_SECONDS", 0.0)
    triton = FakeTriton(response(7))

    async def on_response(_response: Rendered) -> None:
        triton.quarantine.add("echo")
        await asyncio.Event().wait()

    with pytest.raises(InferenceError) as caught:
        await asyncio.wait_for(run(triton, model(decoupled=True), on_response), LATE)
    assert caught.value.failure.code == "model_crashed"
