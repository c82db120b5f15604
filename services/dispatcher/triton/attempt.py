"""Runs one attempt: sends a job's tensors to Triton and renders its responses as JSON."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any, NamedTuple

import msgspec
from opentelemetry.trace import SpanKind
from tritonclient.grpc import service_pb2 as pb

from common import tensors
from common.job_states import Failure
from common.locations.location import Location
from common.settings import INLINE_OUTPUT
from common.telemetry import tracing
from common.tensors import Tensor
from common.views.outputs import BadOutput, OutputTensor
from services.dispatcher.triton.client import Response, TritonClient, quarantined
from services.dispatcher.triton.errors import InferenceError
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.request_bytes import WrittenRequest
from services.dispatcher.triton.tensors import (
    InlineLimit,
    OutputFile,
    Rendered,
    TooLarge,
    check_outputs,
    render_outputs,
)

LARGE_OUTPUT = 256 * 1024  # bytes of raw outputs
PAUSE_SECONDS = 0.0001  # between two pieces of a large output: a thread that never sleeps rarely lets the loop run
LARGEST_SHARE = 0.5  # of the timeout, for reading files; beyond it, the model had too little time for a verdict
Parameter = bool | int | float | str
OnResponse = Callable[[Rendered], Awaitable[None]]


class InferenceRequest(msgspec.Struct, frozen=True):
    """A request for one attempt. The tensors are packed, the parameters a JSON object, the timeout in seconds.

    `max_outputs` limits all responses together, in bytes of JSON. If inputs are in files, `message` is the whole
    message for Triton, and reading them has `spent` seconds of the timeout. An output over `inline` bytes is a file.
    With a `folder` of the client's own, all outputs go there.
    """

    id: str
    model: str
    version: str | None
    tensors: bytes
    parameters: bytes | None
    timeout: float
    max_outputs: int
    message: bytes | None = None
    spent: float = 0.0
    inline: int = INLINE_OUTPUT
    folder: Location | None = None


class InferenceResult(NamedTuple):
    """The result of a successful attempt. `outputs` is the JSON list of the API, which names the `files`."""

    version: str
    outputs: bytes
    files: Sequence[OutputFile] = ()


async def infer(
    triton: TritonClient, request: InferenceRequest, model: ModelVersion, on_response: OnResponse | None = None
) -> InferenceResult:
    """Run one attempt within its timeout. Raises InferenceError.

    `on_response` gets each response as it arrives. The timeout does not count the time that it takes: it may wait for
    the database or the object store.
    """
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
        collector = ResponseCollector(model, triton.max_message, request)
        began, epoch = time.monotonic(), triton.quarantine.epoch(request.model)
        try:
            async with asyncio.timeout(request.timeout - request.spent) as deadline:
                with triton.quarantine.interrupt(request.model, deadline):
                    async with aclosing(triton.infer(build_request(request), metadata)) as responses:
                        async for response in responses:  # to the end, also after an invalid one
                            rendered = await collector.add(response)
                            if rendered is not None and on_response is not None:
                                with pause(deadline):
                                    await on_response(rendered)
        except TimeoutError:
            if not triton.quarantine.accepts(request.model, epoch):
                raise quarantined(refused=False) from None
            raise await explain_timeout(triton, request, began) from None
        return collector.result()


@contextmanager
def pause(deadline: asyncio.Timeout) -> Iterator[None]:
    """Stop a deadline for the time of this context. A quarantine may set another one meanwhile, which stays."""
    clock, until = asyncio.get_running_loop().time, deadline.when()
    assert until is not None, "the attempt has a deadline"
    left = until - clock()
    deadline.reschedule(None)
    try:
        yield
    finally:
        if deadline.when() is None:
            deadline.reschedule(clock() + left)


async def explain_timeout(triton: TritonClient, request: InferenceRequest, began: float) -> InferenceError:
    """Return the error of an attempt that took longer than its timeout. Triton had it from `began` on."""
    outage = await triton.stalled_since(began)
    text = f"the attempt took longer than its timeout of {request.timeout:g} s"
    if request.spent > request.timeout * LARGEST_SHARE and not outage:  # a model with little time is not to blame
        text = f"{text}, and reading its files took {request.spent:.3g} s of it; give it a longer one"
        return InferenceError(Failure("input_timeout", text, True))
    return InferenceError(Failure("timeout", text, True), outage=outage)


class ResponseCollector:
    """Collects the responses of one attempt and checks them against what the model declares."""

    def __init__(self, model: ModelVersion, max_bytes: int, request: InferenceRequest) -> None:
        """`max_bytes` limits the raw responses together, and the request their JSON."""
        self._model = model
        self._max_bytes = max_bytes
        self._max_outputs = request.max_outputs
        self._inline = InlineLimit(request.inline, request.folder)
        self._version = model.version
        self._bytes = 0
        self._rendered = 0
        self._responses: list[bytes] = []
        self._files: list[OutputFile] = []
        self._failure: Failure | None = None

    async def add(self, response: Response) -> Rendered | None:
        """Render one response. The first failure decides the result, and returns None like all later responses.

        Raises InferenceError for a stream that is too large: it may never end.
        """
        self._version = response.version or self._version
        self._bytes += sum(len(tensor.data) for tensor in response.tensors)
        if self._bytes > self._max_bytes:
            text = f"the model's responses exceed {self._max_bytes} bytes in total"
            raise InferenceError(Failure("too_large", text, False))
        if self._failure is not None:
            return None
        left = self._max_outputs - self._rendered
        try:
            place = Place(self._model, len(self._responses), left, self._inline)
            rendered = await render_in_thread(response.tensors, place)
        except BadOutput as error:
            self._failure = Failure("invalid_output", str(error), False)
            return None
        except TooLarge:
            self._failure = too_large(self._max_outputs)
            if self._model.decoupled:
                raise InferenceError(self._failure) from None
            return None
        self._rendered += len(rendered.json)
        self._responses.append(rendered.json)
        self._files.extend(rendered.files)
        return rendered

    def result(self) -> InferenceResult:
        """Return all responses as one result. Raises InferenceError if a response was invalid or is missing."""
        failure = self._failure
        if failure is None and not self._responses and not self._model.decoupled:
            failure = Failure("invalid_output", "the model ended without a response", False)
        if failure is not None:
            raise InferenceError(failure)
        return InferenceResult(self._version, join(self._responses), self._files)


def too_large(limit: int) -> Failure:
    text = (
        f"the outputs exceed {limit} bytes as JSON, in which a number may take eight times its raw bytes; "
        "return less, or raise CHARONIA_MAX_OUTPUTS"
    )
    return Failure("too_large", text, False)


def build_request(request: InferenceRequest) -> Any:
    if request.message is not None:
        return WrittenRequest(request.model, request.id, request.message)
    inputs = tensors.unpack(request.tensors)
    message = describe_request(request, inputs)
    message.raw_input_contents.extend(tensor.data for tensor in inputs)
    return message


def describe_request(request: InferenceRequest, inputs: Sequence[Tensor]) -> Any:
    """Return the message for Triton without the contents of the inputs."""
    message = pb.ModelInferRequest(model_name=request.model, model_version=request.version or "", id=request.id)
    for tensor in inputs:
        message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
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


class Place(NamedTuple):
    """A response's place in its attempt. `number` counts from 0, and `left` are the bytes of JSON that it may have."""

    model: ModelVersion
    number: int
    left: int
    inline: InlineLimit


async def render_in_thread(response: Sequence[OutputTensor], place: Place) -> Rendered:
    """Render a response, in a thread if it is large: the event loop has leases to renew."""
    if sum(len(tensor.data) for tensor in response) > LARGE_OUTPUT:
        return await asyncio.to_thread(render, response, place, partial(time.sleep, PAUSE_SECONDS))
    return render(response, place, lambda: None)


def render(response: Sequence[OutputTensor], place: Place, pause: Callable[[], None]) -> Rendered:
    """Return a response as a JSON list, with the files of its large tensors.

    Raises BadOutput if the model declares otherwise, and TooLarge beyond the bytes that are left.
    """
    is_streamed = place.model.decoupled
    check_outputs(response, place.model.outputs, complete=not is_streamed)
    return render_outputs(response, place.number if is_streamed else -1, place.left, place.inline, pause)


def join(responses: Sequence[bytes]) -> bytes:
    """Concatenate JSON lists into one."""
    if len(responses) == 1:
        return responses[0]
    return b"[%b]" % b",".join(response[1:-1] for response in responses if response != b"[]")
