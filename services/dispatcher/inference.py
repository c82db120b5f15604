"""One attempt: a job's tensors to Triton, its responses back as JSON."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace import Status as SpanStatus
from tritonclient.grpc import service_pb2 as pb

from common import tensors, tracing
from common.jobs import Failure
from common.tensors import Tensor
from services.dispatcher.tensors import BadOutput, Output, check_outputs, render_output
from services.dispatcher.triton import InferenceError, Model, Triton

LARGE = 256 * 1024  # bytes of raw outputs
Parameter = bool | int | float | str


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


def render(responses: Sequence[Sequence[Tensor]], model: Model) -> bytes:
    """Raises BadOutput where the responses are not what the model declares."""
    if not responses and not model.decoupled:
        raise BadOutput("the model ended without an answer")
    outputs: list[Output] = []
    for number, response in enumerate(responses):
        check_outputs(response, model.outputs, complete=not model.decoupled)
        outputs += [render_output(tensor, number if model.decoupled else -1) for tensor in response]
    return msgspec.json.encode(outputs)


async def infer(triton: Triton, question: Question, model: Model) -> Answer:
    """Runs one attempt within its timeout; raises InferenceError."""
    attributes = {
        "rpc.system.name": "grpc",
        "rpc.method": "inference.GRPCInferenceService/ModelStreamInfer",
        "charonia.model": question.model,
        "charonia.job_id": question.id,
    }
    with tracing.tracer.start_as_current_span(
        f"infer {question.model}", kind=SpanKind.CLIENT, attributes=attributes, record_exception=False
    ) as span:
        try:
            return await collect(triton, question, model, span)
        except InferenceError as error:
            span.set_attribute("error.type", error.failure.code)
            span.set_status(SpanStatus(StatusCode.ERROR, error.failure.message))
            raise


async def collect(triton: Triton, question: Question, model: Model, span: Span) -> Answer:
    traceparent = tracing.show(span)
    # Triton samples whatever has a traceparent, whatever its flag says: so only what is sampled gets one.
    metadata = [("traceparent", traceparent)] if tracing.is_sampled(traceparent) else []
    version, responses, size = model.version, [], 0
    try:
        async with (
            asyncio.timeout(question.timeout),
            aclosing(triton.infer(build_request(question), metadata)) as found,
        ):
            async for response in found:
                version = response.version or version
                responses.append(response.tensors)
                size += sum(len(tensor.data) for tensor in response.tensors)
                if size > triton.max_message:
                    text = f"the model's responses are over {triton.max_message} bytes together"
                    raise InferenceError(Failure("too_large", text, False))
        # A large answer is rendered beside the event loop, which has leases to renew.
        outputs = await asyncio.to_thread(render, responses, model) if size > LARGE else render(responses, model)
        return Answer(version, outputs)
    except TimeoutError:
        text = f"the attempt took longer than its timeout of {question.timeout:g} s"
        raise InferenceError(Failure("timeout", text, True)) from None
    except BadOutput as error:
        raise InferenceError(Failure("invalid_output", str(error), False)) from error
