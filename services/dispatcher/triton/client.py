"""A client of Triton's gRPC API."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any, NamedTuple

import grpc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from common.tensors import Datatype
from common.views.outputs import OutputTensor
from services.dispatcher.triton.connection import Access, open_channel
from services.dispatcher.triton.errors import (
    MODEL_CRASHED,
    QUARANTINED,
    WRONG_REQUEST,
    InferenceError,
    TritonUnavailable,
    explain,
    unavailable,
)
from services.dispatcher.triton.messages import StreamMessage, read_message
from services.dispatcher.triton.model_version import ModelVersion, read_version
from services.dispatcher.triton.quarantine import Quarantine
from services.dispatcher.triton.request_bytes import write_request
from services.dispatcher.triton.setting_warnings import warn_of_settings
from services.dispatcher.triton.statistics import Model, Totals, read_totals
from services.dispatcher.triton.unloaded import STALLED, Repository, Unloaded, find_unloaded, list_repository

CALL_SECONDS = 3.0
MAX_REQUEST = 2**31 - 1  # bytes; Triton takes no larger ones
STALL_SECONDS = 1.0  # an answer that takes longer shows that the server, or the way to it, stalled
LOAD_SECONDS = 600.0  # for a model to load
PLAIN = Access()
STREAM_METHOD = "/inference.GRPCInferenceService/ModelStreamInfer"
CONNECTION_REFUSED = "Connection refused"
CONNECTION_LOST = ("ping timeout", "keepalive")  # in the details of a call on a connection whose pings had no answer

log = Log("triton")


class Response(NamedTuple):
    """One response of a model."""

    version: str
    tensors: Sequence[OutputTensor]


class TritonClient:
    """One connection to one Triton server."""

    def __init__(self, url: str, max_message: int, access: Access = PLAIN) -> None:
        """`url` is host:port. `max_message` limits a response, in bytes. The gateway limits requests."""
        self.max_message = max_message
        self.quarantine = Quarantine()
        self.unloaded: Unloaded = {}  # why models do not run, as of the last index
        self.repository: Repository = {}  # all models, as of the last index
        self._headers = access.headers
        self._control_headers = access.control_headers
        self._index_outage = Outage()
        self._stalled_at = float("-inf")
        self._answers = asyncio.Event()
        self._answers.set()  # until shown otherwise
        self._channel = open_channel(
            url,
            access.tls,
            [
                ("grpc.max_send_message_length", MAX_REQUEST),
                ("grpc.max_receive_message_length", max_message),
                ("grpc.initial_reconnect_backoff_ms", 200),
                ("grpc.min_reconnect_backoff_ms", 200),
                ("grpc.max_reconnect_backoff_ms", 1000),
                ("grpc.keepalive_time_ms", 10_000),
                ("grpc.http2.ping_timeout_ms", 5_000),
            ],
        )
        self._stub: Any = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        # A stream with one request looks the same on the wire as a unary-stream call. Opening it this way takes one
        # gRPC operation, not three and a task, and a third less CPU.
        self._stream: Any = self._channel.unary_stream(
            STREAM_METHOD,
            request_serializer=write_request,
            response_deserializer=read_message,
        )

    async def _call(self, method: str, request: Any, seconds: float = CALL_SECONDS) -> Any:
        """Make a call that is no inference, with the server's headers and a deadline."""
        return await getattr(self._stub, method)(request, timeout=seconds, metadata=self._control_headers)

    async def list_ready(self) -> set[tuple[str, str]]:
        """Return the name and version of each model that can run now, without those in quarantine.

        Raises TritonUnavailable.
        """
        began = time.monotonic()
        doubt = asyncio.get_running_loop().call_later(STALL_SECONDS, self._answers.clear)
        try:
            ready = await self._read_index()
            live = await self._call("ServerLive", pb.ServerLiveRequest())
        except grpc.aio.AioRpcError as error:
            self._answers.clear()
            if CONNECTION_REFUSED in (error.details() or ""):  # the server is gone; a server that hangs may resume
                self._answers.set()
                self.quarantine.release_all()
            elif shows_stall(error, time.monotonic() - began):
                self._note_stall()
            raise unavailable(error) from error
        finally:
            doubt.cancel()
        self._answers.set()
        if not live.live:
            raise TritonUnavailable("the server is not live")
        self.quarantine.release_missing({name for name, _ in ready})
        for model in sorted(self.quarantine.models):
            with contextlib.suppress(TritonUnavailable):  # the next look notes it
                await self._check_reloaded(model)
        held = {(name, version) for name, version in ready if self.quarantine.holds(name)}
        self.unloaded |= dict.fromkeys(held, STALLED)
        return ready - held

    async def _read_index(self) -> set[tuple[str, str]]:
        """Return what Triton serves, and note why it does not serve the rest.

        Triton has no index while it cannot read an entry of a repository, such as a link that leads nowhere. Its
        statistics then name what it serves.
        """
        try:
            index = await self._call("RepositoryIndex", pb.RepositoryIndexRequest())
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.INTERNAL:
                raise
            if self._index_outage.begin():
                log.warning("repository.unreadable", error=error.details())
            served = await self._call("ModelStatistics", pb.ModelStatisticsRequest())
            return {(model.name, model.version) for model in served.model_stats}
        self._index_outage.end()
        self.unloaded, self.repository = find_unloaded(index.models), list_repository(index.models)
        return {(model.name, model.version) for model in index.models if model.state == "READY"}

    async def _check_reloaded(self, model: str) -> None:
        """Release a model that was loaded again, or whose server restarted, while nobody looked.

        Raises TritonUnavailable, also if the model is not loaded.
        """
        answer = await self.ask("ModelStatistics", pb.ModelStatisticsRequest(name=model))
        counts = [each.inference_stats.success.count + each.inference_stats.fail.count for each in answer.model_stats]
        self.quarantine.note_executions(model, sum(counts))

    async def read_statistics(self) -> dict[Model, Totals]:
        """Return the counters of all versions. Raises TritonUnavailable."""
        return read_totals(await self.ask("ModelStatistics", pb.ModelStatisticsRequest()))

    @property
    def answers(self) -> bool:
        """Whether the server answered the last `list_ready`, and in time. Responses are held back until it does."""
        return self._answers.is_set()

    async def stalled_since(self, moment: float) -> bool:
        """Return whether the server stalled after a moment of the monotonic clock, or stalls now."""
        if self._stalled_at >= moment:
            return True
        began = time.monotonic()
        try:
            await self._call("ServerLive", pb.ServerLiveRequest())
        except grpc.aio.AioRpcError:
            return True
        return time.monotonic() - began > STALL_SECONDS

    def _note_stall(self) -> None:
        """Trust no Python model any more. Its process may answer late what it was asked before the stall."""
        self._stalled_at = time.monotonic()
        self.quarantine.add_all()

    async def is_loaded(self, model: str) -> bool:
        """Return whether a model is loaded. Raises TritonUnavailable."""
        return bool((await self.ask("ModelReady", pb.ModelReadyRequest(name=model))).ready)

    async def unload_stalled(self, model: str) -> bool:
        """Unload a model if it is in quarantine, and its process is still the one that stalled. Return whether it was.

        Raises TritonUnavailable, also if Triton's model control forbids it.
        """
        if model in self.quarantine.models:
            await self._check_reloaded(model)
        if model not in self.quarantine.models:
            return False
        await self.ask("RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name=model), LOAD_SECONDS)
        self.quarantine.release(model, unloaded=True)
        return True

    async def load(self, model: str) -> None:
        """Load a model. Raises TritonUnavailable."""
        await self.ask("RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name=model), LOAD_SECONDS)

    async def ask(self, method: str, request: Any, seconds: float = CALL_SECONDS) -> Any:
        """Return the answer to a call that is no inference. Raises TritonUnavailable."""
        try:
            return await self._call(method, request, seconds)
        except grpc.aio.AioRpcError as error:
            raise unavailable(error) from error

    async def describe(self, name: str, version: str) -> ModelVersion | None:
        """Return what a version declares, or None if Triton no longer has it. Raises TritonUnavailable."""
        try:
            metadata = await self._call("ModelMetadata", pb.ModelMetadataRequest(name=name, version=version))
            response = await self._call("ModelConfig", pb.ModelConfigRequest(name=name, version=version))
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT):
                return None
            raise unavailable(error) from error
        config = response.config
        steps = [step.model_name for step in config.ensemble_scheduling.step]
        self.quarantine.describe(name, python=config.backend == "python", steps=steps)
        described = read_version(name, version, metadata, config)
        warn_of_settings(described, config)
        return described

    async def infer(self, request: Any, metadata: Sequence[tuple[str, str]]) -> AsyncGenerator[Response, None]:
        """Yield the responses as they arrive: one response, unless the model is decoupled.

        Raises InferenceError, also after the last response if the responses may belong to another request. Each call
        opens a stream of its own, because traced unary calls corrupt this Triton's memory.
        """
        model, epoch = request.model_name, self.quarantine.epoch(request.model_name)
        if self.quarantine.holds(model):
            raise quarantined(refused=True)
        call = self._stream(request, metadata=(*metadata, *self._headers))
        failure = None
        try:
            # Read to the end: a cancel that races with completion can crash the server.
            while (message := await call.read()) is not grpc.aio.EOF:
                if message.error_message:
                    error = self._explain(message.error_message, model)
                    failure = failure or error
                elif failure is None:
                    await self._answers.wait()  # a response after a freeze may belong to another request
                    failure = self._check(message.response.id, request, epoch)
                    if failure is None:
                        yield read_response(message)
            if failure is None and not self.quarantine.accepts(model, epoch):
                failure = quarantined(refused=False)
            if failure is not None:
                raise failure
        except grpc.aio.AioRpcError as broken:
            if shows_stall(broken):
                self._note_stall()
            raise explain(broken.details() or str(broken.code()), broken.code()) from broken
        finally:
            call.cancel()  # no effect if the stream has ended

    def _explain(self, message: str, model: str) -> InferenceError:
        """Return the error of a message. Quarantine the model if its process stalled."""
        error = explain(message)
        if error.failure.code == MODEL_CRASHED:
            self.quarantine.add(model)
        return error

    def _check(self, response_id: str, request: Any, epoch: int) -> InferenceError | None:
        """Return why a response cannot be trusted, or None."""
        if not self.quarantine.accepts(request.model_name, epoch):
            return quarantined(refused=False)
        if response_id not in ("", request.id):
            return InferenceError(WRONG_REQUEST)
        return None

    async def close(self) -> None:
        await self._channel.close(1)


def quarantined(*, refused: bool) -> InferenceError:
    """Return the error of a request to a model in quarantine.

    A request from before the stall may be its cause, so the number of times that its job runs again is limited.
    """
    return InferenceError(QUARANTINED, outage=True, refused=refused)


def shows_stall(error: grpc.aio.AioRpcError, seconds: float = 0.0) -> bool:
    """Return whether a call failed because the server stalled. `seconds` is how long a call with a deadline took.

    If it took longer than its deadline, this process stalled itself.
    """
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return seconds < CALL_SECONDS + STALL_SECONDS
    return error.code() is grpc.StatusCode.UNAVAILABLE and any(
        sign in (error.details() or "") for sign in CONNECTION_LOST
    )


def read_response(message: StreamMessage) -> Response:
    tensors = [
        OutputTensor(output.name, Datatype(output.datatype), list(output.shape), raw)
        for output, raw in zip(message.response.outputs, message.raws, strict=True)
    ]
    return Response(message.response.model_version, tensors)
