"""Runs one attempt: sends a job's tensors to Triton and renders its responses as JSON."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple

import msgspec
from opentelemetry.trace import SpanKind
from tritonclient.grpc import service_pb2 as pb

from common import tensors
from common.jobs import Failure
from common.telemetry import tracing
from services.dispatcher.triton.client import ModelVersion, Response, TritonClient, quarantined
from services.dispatcher.triton.errors import InferenceError
from services.dispatcher.triton.tensors import BadOutput, OutputTensor, TooLarge, check_outputs, render_outputs

LARGE_OUTPUT = 256 * 1024  # bytes of raw outputs
PAUSE_SECONDS = 0.0001  # between two pieces of a large output: a thread that never sleeps rarely lets the loop run
Parameter = bool | int | float | str
OnResponse = Callable[[bytes], Awaitable[None]]


class InferenceRequest(msgspec.Struct, frozen=True):
    """A request for one attempt. The tensors are packed, the parameters a JSON object, the timeout in seconds.

    `max_outputs` limits all responses together, in bytes of JSON.
    """

    id: str
    model: str
    version: str | None
    tensors: bytes
    parameters: bytes | None
    timeout: float
    max_outputs: int


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
        collector = ResponseCollector(model, triton.max_message, request.max_outputs, on_response)
        began, epoch = time.monotonic(), triton.quarantine.epoch(request.model)
        try:
            async with asyncio.timeout(request.timeout) as deadline:
                with triton.quarantine.interrupt(request.model, deadline):
                    async with aclosing(triton.infer(build_request(request), metadata)) as responses:
                        async for response in responses:  # to the end, also after an invalid one
                            await collector.add(response)
        except TimeoutError:
            if not triton.quarantine.accepts(request.model, epoch):
                raise quarantined(refused=False) from None
            raise await explain_timeout(triton, request.timeout, began) from None
        return collector.result()


async def explain_timeout(triton: TritonClient, timeout: float, began: float) -> InferenceError:
    """Return the error of an attempt that began at this moment and took longer than its timeout."""
    text = f"the attempt took longer than its timeout of {timeout:g} s"
    return InferenceError(Failure("timeout", text, True), outage=await triton.stalled_since(began))


class ResponseCollector:
    """Collects the responses of one attempt and checks them against what the model declares."""

    def __init__(self, model: ModelVersion, max_bytes: int, max_outputs: int, on_response: OnResponse | None) -> None:
        """`max_bytes` limits the raw responses together, and `max_outputs` their JSON."""
        self._model = model
        self._max_bytes = max_bytes
        self._max_outputs = max_outputs
        self._on_response = on_response
        self._version = model.version
        self._bytes = 0
        self._rendered = 0
        self._responses: list[bytes] = []
        self._failure: Failure | None = None

    async def add(self, response: Response) -> None:
        """Render one response. The first failure decides the result; later responses are not reported.

        Raises InferenceError for a stream that is too large: it may never end.
        """
        self._version = response.version or self._version
        self._bytes += sum(len(tensor.data) for tensor in response.tensors)
        if self._bytes > self._max_bytes:
            text = f"the model's responses exceed {self._max_bytes} bytes in total"
            raise InferenceError(Failure("too_large", text, False))
        if self._failure is not None:
            return
        left = self._max_outputs - self._rendered
        try:
            rendered = await render_in_thread(response.tensors, self._model, len(self._responses), left)
        except BadOutput as error:
            self._failure = Failure("invalid_output", str(error), False)
            return
        except TooLarge:
            self._failure = too_large(self._max_outputs)
            if self._model.decoupled:
                raise InferenceError(self._failure) from None
            return
        self._rendered += len(rendered)
        self._responses.append(rendered)
        if self._on_response is not None:
            await self._on_response(rendered)

    def result(self) -> InferenceResult:
        """Return all responses as one result. Raises InferenceError if a response was invalid or is missing."""
        failure = self._failure
        if failure is None and not self._responses and not self._model.decoupled:
            failure = Failure("invalid_output", "the model ended without a response", False)
        if failure is not None:
            raise InferenceError(failure)
        return InferenceResult(self._version, join(self._responses))


def too_large(limit: int) -> Failure:
    text = (
        f"the outputs exceed {limit} bytes as JSON, in which a number may take eight times its raw bytes; "
        "return less, or raise CHARONIA_MAX_OUTPUTS"
    )
    return Failure("too_large", text, False)


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


async def render_in_thread(response: Sequence[OutputTensor], model: ModelVersion, number: int, limit: int) -> bytes:
    """Render a response, in a thread if it is large: the event loop has leases to renew."""
    if sum(len(tensor.data) for tensor in response) > LARGE_OUTPUT:
        return await asyncio.to_thread(render, response, model, number, limit, partial(time.sleep, PAUSE_SECONDS))
    return render(response, model, number, limit, lambda: None)


def render(
    response: Sequence[OutputTensor], model: ModelVersion, number: int, limit: int, pause: Callable[[], None]
) -> bytes:
    """Return a response as a JSON list. `number` counts from 0.

    Raises BadOutput if the model declares otherwise, and TooLarge beyond `limit` bytes.
    """
    check_outputs(response, model.outputs, complete=not model.decoupled)
    return render_outputs(response, number if model.decoupled else -1, limit, pause)


def join(responses: Sequence[bytes]) -> bytes:
    """Concatenate JSON lists into one."""
    if len(responses) == 1:
        return responses[0]
    return b"[%b]" % b",".join(response[1:-1] for response in responses if response != b"[]")
