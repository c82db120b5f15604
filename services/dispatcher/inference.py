"""One attempt: a job's tensors to Triton, its responses back as JSON."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec
from opentelemetry.trace import Span, SpanKind
from tritonclient.grpc import service_pb2 as pb

from common import tensors, tracing
from common.jobs import Failure
from common.tensors import Tensor
from services.dispatcher.tensors import BadOutput, check_outputs, render_output
from services.dispatcher.triton import InferenceError, Model, Triton

LARGE = 256 * 1024  # bytes of raw outputs
Parameter = bool | int | float | str
Tell = Callable[[bytes], Awaitable[None]]


class Question(msgspec.Struct, frozen=True):
    """What an attempt asks: the tensors packed, the parameters a JSON object, the timeout in seconds."""

    id: str
    model: str
    version: str | None
    tensors: bytes
    parameters: bytes | None
    timeout: float


class Answer(NamedTuple):
    """`outputs` is the JSON list of the API."""

    version: str
    outputs: bytes


def build_request(question: Question) -> Any:
    request = pb.ModelInferRequest(model_name=question.model, model_version=question.version or "", id=question.id)
    for tensor in tensors.unpack(question.tensors):
        request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        request.raw_input_contents.append(tensor.data)
    parameters = msgspec.json.decode(question.parameters or b"{}", type=dict[str, Parameter])
    for name, value in parameters.items():
        match value:
            case bool():
                request.parameters[name].bool_param = value
            case int():
                request.parameters[name].int64_param = value
            case float():
                request.parameters[name].double_param = value
            case str():
                request.parameters[name].string_param = value
    return request


def render(response: Sequence[Tensor], model: Model, number: int) -> bytes:
    """A response, the `number`-th from 0, as a JSON list; raises BadOutput where it is not what the model declares."""
    check_outputs(response, model.outputs, complete=not model.decoupled)
    return msgspec.json.encode([render_output(tensor, number if model.decoupled else -1) for tensor in response])


def join(responses: Sequence[bytes]) -> bytes:
    """JSON lists as one."""
    return b"[%b]" % b",".join(response[1:-1] for response in responses if response != b"[]")


async def infer(triton: Triton, question: Question, model: Model, tell: Tell | None = None) -> Answer:
    """Runs one attempt within its timeout; `tell` gets each response as it comes. Raises InferenceError."""
    attributes = {
        "rpc.system.name": "grpc",
        "rpc.method": "inference.GRPCInferenceService/ModelStreamInfer",
        "charonia.model": question.model,
        "charonia.job_id": question.id,
    }
    with tracing.begin(f"infer {question.model}", kind=SpanKind.CLIENT, attributes=attributes) as span:
        return await collect(triton, question, model, span, tell)


async def collect(triton: Triton, question: Question, model: Model, span: Span, tell: Tell | None) -> Answer:
    traceparent = tracing.show(span)
    # Triton samples whatever has a traceparent, whatever its flag says: so only what is sampled gets one.
    metadata = [("traceparent", traceparent)] if tracing.is_sampled(traceparent) else []
    version, size = model.version, 0
    responses: list[bytes] = []
    bad: BadOutput | None = None
    try:
        async with (
            asyncio.timeout(question.timeout),
            aclosing(triton.infer(build_request(question), metadata)) as found,
        ):
            async for response in found:  # to its end, also after a bad one: see Triton.infer
                version = response.version or version
                size += sum(len(tensor.data) for tensor in response.tensors)
                if size > triton.max_message:
                    text = f"the model's responses are over {triton.max_message} bytes together"
                    raise InferenceError(Failure("too_large", text, False))
                try:
                    responses.append(await render_beside(response.tensors, model, len(responses)))
                except BadOutput as error:
                    bad = bad or error
                if tell is not None and bad is None:
                    await tell(responses[-1])
    except TimeoutError:
        text = f"the attempt took longer than its timeout of {question.timeout:g} s"
        raise InferenceError(Failure("timeout", text, True)) from None
    if bad is None and not responses and not model.decoupled:
        bad = BadOutput("the model ended without an answer")
    if bad is not None:
        raise InferenceError(Failure("invalid_output", str(bad), False)) from bad
    return Answer(version, join(responses))


async def render_beside(response: Sequence[Tensor], model: Model, number: int) -> bytes:
    """As `render`; a large one beside the event loop, which has leases to renew."""
    if sum(len(tensor.data) for tensor in response) > LARGE:
        return await asyncio.to_thread(render, response, model, number)
    return render(response, model, number)
