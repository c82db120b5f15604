"""Triton's gRPC API: one client, its catalogue, and what its errors mean (facts by experiment, see docs/triton.md)."""

import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any, NamedTuple

import grpc
import msgspec
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from common.jobs import Failure
from common.tensors import Datatype, Signature, Tensor
from services.dispatcher.trust import Trust

CALL_SECONDS = 3.0
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
QUEUE_FULL = "triton_queue_full"
MODEL_CRASHED = "model_crashed"
OUT_OF_STEP = Failure(
    MODEL_CRASHED, "the model's process fell silent, and Triton mixes up its answers since then", True
)


class TritonDown(Exception):
    """Triton does not answer."""


class InferenceError(Exception):
    """An inference failed."""

    def __init__(self, failure: Failure, *, outage: bool = False, refused: bool = False) -> None:
        """`outage`: the server or the model is away, which is most likely not this job's doing.

        `refused`: Triton did not take the request, so it never began.
        """
        super().__init__(failure.message)
        self.failure = failure
        self.outage = outage
        self.refused = refused

    @property
    def error_type(self) -> str:
        """What a span says of it: the message may quote a payload."""
        return self.failure.code

    @property
    def crowded(self) -> bool:
        """The model's own queue is full: fewer at a time are wanted."""
        return self.failure.code == QUEUE_FULL


class Model(msgspec.Struct, frozen=True):
    """One version of a model that is ready; shapes include the batch dimension."""

    name: str
    version: str
    decoupled: bool
    max_batch_size: int
    instances: int
    inputs: list[Signature]
    outputs: list[Signature]


class Response(NamedTuple):
    version: str
    tensors: list[Tensor]


class Rule(NamedTuple):
    """What an error means whose message matches `pattern`."""

    pattern: str
    code: str
    retryable: bool
    outage: bool = False
    refused: bool = False


FROM = r"(\[request id: [^\]]*\] )?(Failed to process the request\(s\) for model instance '[^']*', message: )?"
# An error comes over a stream without its code (the header that asks for codes crashes the server, see docs/triton.md),
# so its text decides; the first rule that fits counts. A model that begins its message with the name of a code
# says by it whether trying again may help.
RULES = (
    Rule("has no available versions", "model_unavailable", retryable=True, outage=True, refused=True),
    Rule("Server is stopping", "triton_unavailable", retryable=True, outage=True, refused=True),
    Rule("Request for unknown model", "model_not_found", retryable=False),
    Rule("Exceeds maximum queue size", QUEUE_FULL, retryable=True, refused=True),
    Rule("Request timeout expired", "triton_queue_timeout", retryable=True),
    # At its beginning: a model may quote anything in a message of its own.
    Rule(f"^{FROM}(Stub process .*is not healthy|Failed to obtain the health mutex)", MODEL_CRASHED, retryable=True),
    Rule("unexpected inference input", "invalid_input", retryable=False),
    Rule("expected number of inputs", "invalid_input", retryable=False),
    Rule("unexpected shape for input", "invalid_input", retryable=False),
    Rule("inference input .* data-type is", "invalid_input", retryable=False),
    Rule("invalid value type for .* parameter", "invalid_input", retryable=False),
    Rule("batch-size must be", "invalid_input", retryable=False),
    Rule("^(INVALID_ARG|INVALID_ARGUMENT|OUT_OF_RANGE|FAILED_PRECONDITION)\\b", "invalid_input", retryable=False),
    Rule("^(UNSUPPORTED|UNIMPLEMENTED|NOT_FOUND|PERMISSION_DENIED)\\b", "inference_refused", retryable=False),
)
OTHERWISE = Rule("", "inference_failed", retryable=True)
REFUSED = "Connection refused"
UNREACHED = "failed to connect to all addresses"  # of a call that failed: it never came to the server
# What gRPC itself says of a call: the connection is away, or a message was too large for it.
CODES = {
    grpc.StatusCode.UNAVAILABLE: Rule("", "triton_unavailable", retryable=True, outage=True),
    grpc.StatusCode.CANCELLED: Rule("", "triton_unavailable", retryable=True, outage=True),
    # A connection that breaks while a stream opens. What the model itself says comes inside the stream.
    grpc.StatusCode.INTERNAL: Rule("", "triton_unavailable", retryable=True, outage=True),
    grpc.StatusCode.UNKNOWN: Rule("", "triton_unavailable", retryable=True, outage=True),
    grpc.StatusCode.RESOURCE_EXHAUSTED: Rule("", "too_large", retryable=False),
    grpc.StatusCode.UNIMPLEMENTED: Rule("", "unsupported", retryable=False),
}
STRANGE = Failure(OTHERWISE.code, "Triton answered another request", True)
ERRORS = frozenset(rule.code for rule in (*RULES, OTHERWISE, *CODES.values()))


def explain(message: str, code: grpc.StatusCode | None = None) -> InferenceError:
    """The error in a message of Triton's, without the server's paths; `code` where the call itself failed."""
    matching = (rule for rule in RULES if re.search(rule.pattern, message))
    rule = next(matching, CODES.get(code, OTHERWISE) if code else OTHERWISE)
    refused = rule.refused or (code is grpc.StatusCode.UNAVAILABLE and UNREACHED in message)
    failure = Failure(rule.code, strip_paths(message), rule.retryable)
    return InferenceError(failure, outage=rule.outage, refused=refused)


def strip_paths(message: str) -> str:
    text = message.split("\n\nAt:\n")[0]
    return re.sub(r"^\[request id: [^\]]*\] ", "", text).strip()[:2000]


class Triton:
    def __init__(self, url: str, max_message: int) -> None:
        """`url` is host:port; `max_message` bounds a request and a response, in bytes."""
        self.max_message = max_message
        self.trust = Trust()
        self.channel = grpc.aio.insecure_channel(
            url,
            options=[
                ("grpc.max_send_message_length", max_message),
                ("grpc.max_receive_message_length", max_message),
                ("grpc.initial_reconnect_backoff_ms", 200),
                ("grpc.min_reconnect_backoff_ms", 200),
                ("grpc.max_reconnect_backoff_ms", 1000),
                ("grpc.keepalive_time_ms", 10_000),
                ("grpc.http2.ping_timeout_ms", 5_000),
            ],
        )
        self.stub: Any = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        # On the wire a stream with one request looks the same whoever opened it; this way it takes one operation of
        # gRPC's to begin it, not three with a task between them, and a third less CPU.
        self.stream: Any = self.channel.unary_stream(
            STREAM,
            request_serializer=pb.ModelInferRequest.SerializeToString,
            response_deserializer=pb.ModelStreamInferResponse.FromString,
        )

    async def list_ready(self) -> set[tuple[str, str]]:
        """(name, version) of what can run now; raises TritonDown."""
        try:
            index = await self.stub.RepositoryIndex(pb.RepositoryIndexRequest(), timeout=CALL_SECONDS)
            live = await self.stub.ServerLive(pb.ServerLiveRequest(), timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            if REFUSED in (error.details() or ""):  # nobody is there; one that hangs may go on
                self.trust.keep(())
            raise TritonDown(error.details()) from error
        if not live.live:
            raise TritonDown("the server is not live")
        ready = {(model.name, model.version) for model in index.models if model.state == "READY"}
        self.trust.keep({name for name, _ in ready})
        return ready

    async def describe(self, name: str, version: str) -> Model | None:
        """None where the model has gone meanwhile; raises TritonDown."""
        try:
            metadata = await self.stub.ModelMetadata(
                pb.ModelMetadataRequest(name=name, version=version), timeout=CALL_SECONDS
            )
            answer = await self.stub.ModelConfig(
                pb.ModelConfigRequest(name=name, version=version), timeout=CALL_SECONDS
            )
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT):
                return None
            raise TritonDown(error.details()) from error
        config = answer.config
        optional = {tensor.name for tensor in config.input if tensor.optional}
        return Model(
            name=name,
            version=version,
            decoupled=config.model_transaction_policy.decoupled,
            max_batch_size=config.max_batch_size,
            instances=sum(group.count for group in config.instance_group) or 1,  # an ensemble has none
            inputs=[read_signature(tensor, tensor.name in optional) for tensor in metadata.inputs],
            outputs=[read_signature(tensor, False) for tensor in metadata.outputs],
        )

    async def infer(self, request: Any, metadata: Sequence[tuple[str, str]]) -> AsyncGenerator[Response, None]:
        """The responses as they come, one for a model that is not decoupled. Raises InferenceError, at their end too
        where they may be another request's.

        Always over a stream of its own: traced unary calls corrupt this Triton's memory.
        """
        model, epoch = request.model_name, self.trust.begin(request.model_name)
        call = self.stream(request, metadata=tuple(metadata))
        failure = None
        try:
            # To its end: a cancel that races with completion can crash the server.
            while (message := await call.read()) is not grpc.aio.EOF:
                if message.error_message:
                    error = explain(message.error_message)
                    if error.failure.code == MODEL_CRASHED:
                        self.trust.lose(model)
                    failure = failure or error
                elif failure is None and not self.trust.has(model, epoch):
                    failure = out_of_step()
                elif failure is None and message.infer_response.id not in ("", request.id):
                    failure = InferenceError(STRANGE)  # a job must rather run again than have that
                elif failure is None:
                    yield read_response(message.infer_response)
            if failure is None and not self.trust.has(model, epoch):
                failure = out_of_step()
            if failure is not None:
                raise failure
        except grpc.aio.AioRpcError as broken:
            raise explain(broken.details() or str(broken.code()), broken.code()) from broken
        finally:
            call.cancel()  # nothing where the stream has ended

    async def close(self) -> None:
        await self.channel.close(1)


def out_of_step() -> InferenceError:
    """As if Triton had not taken the request: the job runs again, and no attempt is lost."""
    return InferenceError(OUT_OF_STEP, refused=True)


def read_signature(tensor: Any, optional: bool) -> Signature:
    return Signature(tensor.name, Datatype(tensor.datatype), list(tensor.shape), optional)


def read_response(response: Any) -> Response:
    raws = response.raw_output_contents
    tensors = [
        Tensor(output.name, Datatype(output.datatype), list(output.shape), raw)
        for output, raw in zip(response.outputs, raws, strict=True)
    ]
    return Response(response.model_version, tensors)
