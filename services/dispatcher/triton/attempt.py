"""Runs one attempt: sends a job's tensors to Triton and renders its responses as JSON."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec
from opentelemetry.trace import SpanKind
from tritonclient.grpc import service_pb2 as pb

from common import tensors
from common.jobs import Failure
from common.telemetry import tracing
from common.tensors import Tensor
from services.dispatcher.triton.client import ModelVersion, Response, TritonClient
from services.dispatcher.triton.errors import InferenceError
from services.dispatcher.triton.tensors import BadOutput, check_outputs, render_output

LARGE_OUTPUT = 256 * 1024  # bytes of raw outputs
Parameter = bool | int | float | str
OnResponse = Callable[[bytes], Awaitable[None]]


class InferenceRequest(msgspec.Struct, frozen=True):
    """A request for one attempt. The tensors are packed, the parameters a JSON object, the timeout in seconds."""

    id: str
    model: str
    version: str | None
    tensors: bytes
    parameters: bytes | None
    timeout: float


class InferenceResult(NamedTuple):
    """The result of a successful attempt. `outputs` is the JSON list of the API."""

    version: str
    outputs: bytes


async def infer(
    triton: TritonClient, request: InferenceRequest, model: ModelVersion, on_response: OnResponse | None = None
) -> InferenceResult:
    """Run one attempt within its timeout. `on_response` gets each response as it arrives. Raises InferenceError."""
    attributes = {
        "rpc.system.name": "grpc",
        "rpc.method": "inference.GRPCInferenceService/ModelStreamInfer",
        "charonia.model": request.model,
        "charonia.job_id": request.id,
    }
    with tracing.start_span(f"infer {request.model}", kind=SpanKind.CLIENT, attributes=attributes) as span:
        traceparent = tracing.to_traceparent(span)
        # Triton samples every request with a traceparent, whatever its flag. So only sampled traces send one.
        metadata = [("traceparent", traceparent)] if tracing.is_sampled(traceparent) else []
        collector = ResponseCollector(model, triton.max_message, on_response)
        try:
            async with (
                asyncio.timeout(request.timeout),
                aclosing(triton.infer(build_request(request), metadata)) as responses,
            ):
                async for response in responses:  # to the end, also after an invalid one: see TritonClient.infer
                    await collector.add(response)
        except TimeoutError:
            text = f"the attempt took longer than its timeout of {request.timeout:g} s"
            raise InferenceError(Failure("timeout", text, True)) from None
        return collector.result()


class ResponseCollector:
    """Collects the responses of one attempt and checks them against what the model declares."""

    def __init__(self, model: ModelVersion, max_bytes: int, on_response: OnResponse | None) -> None:
        self._model = model
        self._max_bytes = max_bytes
        self._on_response = on_response
        self._version = model.version
        self._bytes = 0
        self._responses: list[bytes] = []
        self._error: BadOutput | None = None

    async def add(self, response: Response) -> None:
        """Render one response. The first invalid one decides the result; later ones are not reported."""
        self._version = response.version or self._version
        self._bytes += sum(len(tensor.data) for tensor in response.tensors)
        if self._bytes > self._max_bytes:
            text = f"the model's responses exceed {self._max_bytes} bytes in total"
            raise InferenceError(Failure("too_large", text, False))
        try:
            self._responses.append(await render_in_thread(response.tensors, self._model, len(self._responses)))
        except BadOutput as error:
            self._error = self._error or error
        if self._on_response is not None and self._error is None:
            await self._on_response(self._responses[-1])

    def result(self) -> InferenceResult:
        """Return all responses as one result. Raises InferenceError if a response was invalid or is missing."""
        error = self._error
        if error is None and not self._responses and not self._model.decoupled:
            error = BadOutput("the model ended without a response")
        if error is not None:
            raise InferenceError(Failure("invalid_output", str(error), False)) from error
        return InferenceResult(self._version, join(self._responses))


def build_request(request: InferenceRequest) -> Any:
    message = pb.ModelInferRequest(model_name=request.model, model_version=request.version or "", id=request.id)
    for tensor in tensors.unpack(request.tensors):
        message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        message.raw_input_contents.append(tensor.data)
    parameters = msgspec.json.decode(request.parameters or b"{}", type=dict[str, Parameter])
    for name, value in parameters.items():
        match value:
            case bool():
                message.parameters[name].bool_param = value
            case int():
                message.parameters[name].int64_param = value
            case float():
                message.parameters[name].double_param = value
            case str():
                message.parameters[name].string_param = value
    return message


async def render_in_thread(response: Sequence[Tensor], model: ModelVersion, number: int) -> bytes:
    """Render a response, in a thread if it is large: the event loop has leases to renew."""
    if sum(len(tensor.data) for tensor in response) > LARGE_OUTPUT:
        return await asyncio.to_thread(render, response, model, number)
    return render(response, model, number)


def render(response: Sequence[Tensor], model: ModelVersion, number: int) -> bytes:
    """Return a response as a JSON list. `number` counts from 0. Raises BadOutput if the model declares otherwise."""
    check_outputs(response, model.outputs, complete=not model.decoupled)
    return msgspec.json.encode([render_output(tensor, number if model.decoupled else -1) for tensor in response])


def join(responses: Sequence[bytes]) -> bytes:
    """Concatenate JSON lists into one."""
    return b"[%b]" % b",".join(response[1:-1] for response in responses if response != b"[]")
