"""The client's streams: wrong answers, stalled models and cancelled calls."""

import asyncio
import contextlib
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb

from services.dispatcher.triton import client as module
from services.dispatcher.triton.client import CALL_SECONDS, TritonClient
from services.dispatcher.triton.errors import WRONG_REQUEST, InferenceError, TritonUnavailable
from services.dispatcher.triton.messages import read_message
from services.dispatcher.triton.unloaded import STALLED as STALLED_REASON
from tests.unit.clock import Clock


class Call:
    """Returns these messages, then ends."""

    def __init__(self, *messages: Any) -> None:
        self.messages = [*(read_message(message.SerializeToString()) for message in messages), grpc.aio.EOF]

    async def read(self) -> object:
        return self.messages.pop(0)

    def cancel(self) -> None:
        pass


class Server:
    """Lists these models as ready. A string is the details of an error instead."""

    def __init__(self, index: str | list[str]) -> None:
        self.index = index
        self.executions = 3
        self.reuse_seconds = "0"
        self.unloads: list[str] = []

    async def RepositoryIndex(self, *_: object, **__: object) -> object:  # noqa: N802 - the stub's name
        if isinstance(self.index, str):
            nothing = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, self.index)
        models = [pb.RepositoryIndexResponse.ModelIndex(name=name, version="1", state="READY") for name in self.index]
        return pb.RepositoryIndexResponse(models=models)

    async def ServerLive(self, *_: object, **__: object) -> object:  # noqa: N802
        return pb.ServerLiveResponse(live=True)

    async def ModelStatistics(self, *_: object, **__: object) -> object:  # noqa: N802
        found = pb.ModelStatistics(inference_stats={"fail": {"count": self.executions}})
        return pb.ModelStatisticsResponse(model_stats=[found])

    async def ModelMetadata(self, *_: object, **__: object) -> object:  # noqa: N802
        return pb.ModelMetadataResponse()

    async def ModelConfig(self, *_: object, **__: object) -> object:  # noqa: N802
        parameters = {"charonia.reuse_seconds": {"string_value": self.reuse_seconds}}
        return pb.ModelConfigResponse(config={"parameters": parameters})

    async def RepositoryModelUnload(self, request: Any, **_: object) -> object:  # noqa: N802
        self.unloads.append(request.model_name)
        return pb.RepositoryModelUnloadResponse()


STALLED = pb.ModelStreamInferResponse(error_message="Stub process 'work_0_0' is not healthy.")
ANSWER = pb.ModelStreamInferResponse(infer_response=pb.ModelInferResponse(model_version="1"))


async def list_versions(triton: TritonClient, model: str, *messages: object) -> list[str]:
    triton._stream = lambda *_, **__: Call(*messages)
    return [response.version async for response in triton.infer(pb.ModelInferRequest(model_name=model), [])]


async def test_an_answer_to_another_request_is_an_error() -> None:
    """The stream is still read to its end, because an early cancel can crash the server."""
    triton = TritonClient("127.0.0.1:1", 1024)
    own, strange = (
        pb.ModelStreamInferResponse(infer_response=pb.ModelInferResponse(id=job)) for job in ("job_1", "job_2")
    )
    call = Call(own, strange, own)
    triton._stream = lambda *_, **__: call
    try:
        found = triton.infer(pb.ModelInferRequest(model_name="echo", id="job_1"), [])
        await anext(found)
        with pytest.raises(InferenceError) as caught:
            await anext(found)
        assert (caught.value.failure, caught.value.failure.retryable, call.messages) == (WRONG_REQUEST, True, [])
    finally:
        await triton.close()


async def fail(triton: TritonClient, *messages: object) -> InferenceError:
    with pytest.raises(InferenceError) as caught:
        await list_versions(triton, "work", *messages)
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("model_crashed", True)
    return caught.value


@pytest.mark.parametrize(
    ("index", "trusted"),
    [
        (["work", "echo"], False),
        ("keepalive watchdog timeout", False),
        (["echo"], True),
        ("failed to connect to all addresses; last error: Connection refused", True),
    ],
)
async def test_a_stalled_model_is_trusted_again_after_it_was_away(index: str | list[str], trusted: bool) -> None:
    triton = TritonClient("127.0.0.1:1", 1024)
    try:
        assert await list_versions(triton, "work", ANSWER) == ["1"]
        assert not (await fail(triton, STALLED)).refused
        assert (await fail(triton, ANSWER)).refused  # so the job loses no attempt
        assert await list_versions(triton, "echo", ANSWER) == ["1"]
        triton._stub = Server(index)
        with contextlib.suppress(TritonUnavailable):
            await triton.list_ready()
        if trusted:
            assert await list_versions(triton, "work", ANSWER) == ["1"]
        else:
            assert (await fail(triton, ANSWER)).refused
    finally:
        await triton.close()


async def test_an_answer_to_a_request_from_before_the_stall_is_refused() -> None:
    """Even if the model was reloaded in the meantime."""
    triton = TritonClient("127.0.0.1:1", 1024)

    class Slow(Call):
        async def read(self) -> object:
            if len(self.messages) == 2:
                triton.quarantine.add("work")
                triton.quarantine.release_all()
            return await super().read()

    try:
        triton._stream = lambda *_, **__: Slow(ANSWER)
        with pytest.raises(InferenceError) as caught:
            await anext(triton.infer(pb.ModelInferRequest(model_name="work"), []))
        assert (caught.value.outage, caught.value.refused) == (True, False)
        assert await list_versions(triton, "work", ANSWER) == ["1"]
    finally:
        await triton.close()


async def test_a_stall_after_another_error_quarantines_the_model() -> None:
    triton = TritonClient("127.0.0.1:1", 1024)
    try:
        with pytest.raises(InferenceError):
            await list_versions(triton, "work", pb.ModelStreamInferResponse(error_message="something else"), STALLED)
        assert (await fail(triton, ANSWER)).refused
    finally:
        await triton.close()


async def test_a_model_that_was_loaded_again_unseen_is_trusted_again() -> None:
    triton, server = TritonClient("127.0.0.1:1", 1024), Server(["work"])
    triton._stub = server
    try:
        await fail(triton, STALLED)
        assert await triton.list_ready() == set()
        assert triton.unloaded == {("work", "1"): STALLED_REASON}
        server.executions = 2
        assert await triton.list_ready() == {("work", "1")}
        assert triton.unloaded == {}
        assert await list_versions(triton, "work", ANSWER) == ["1"]
    finally:
        await triton.close()


async def test_a_reload_unloads_only_a_process_that_stalled() -> None:
    """Not one that was loaded since the last look."""
    triton, server = TritonClient("127.0.0.1:1", 1024), Server(["work"])
    triton._stub = server
    try:
        assert not await triton.unload_stalled("work")
        await fail(triton, STALLED)
        await triton.list_ready()
        server.executions = 2
        assert not await triton.unload_stalled("work")
        assert server.unloads == []
        await fail(triton, STALLED)
        await triton.list_ready()
        assert await triton.unload_stalled("work")
        assert server.unloads == ["work"]
    finally:
        await triton.close()


class Frozen(Server):
    """Does not answer before the deadline of a call."""

    def __init__(self, seconds: float) -> None:
        super().__init__([])
        self.seconds = seconds

    async def RepositoryIndex(self, *_: object, **__: object) -> object:  # noqa: N802
        module.time.now += self.seconds  # type: ignore[attr-defined]
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(grpc.StatusCode.DEADLINE_EXCEEDED, nothing, nothing, "Deadline Exceeded")


@pytest.mark.parametrize(("seconds", "stalled"), [(CALL_SECONDS, True), (CALL_SECONDS + 60, False)])
async def test_a_frozen_server_quarantines_its_python_models_but_a_frozen_dispatcher_does_not(
    seconds: float, stalled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Time(Clock):
        monotonic = Clock.__call__

    monkeypatch.setattr(module, "time", Time())
    triton = TritonClient("127.0.0.1:1", 1024)
    triton._stub = Frozen(seconds)
    triton.quarantine.describe("work", python=True, steps=[])
    triton.quarantine.describe("net", python=False, steps=[])
    try:
        with pytest.raises(TritonUnavailable):
            await triton.list_ready()
        assert triton.quarantine.models == ({"work"} if stalled else set())
        triton._stub = Server([])
        assert await triton.stalled_since(0.0) is stalled
    finally:
        await triton.close()


@pytest.mark.parametrize("stalled", [False, True])
async def test_responses_are_held_back_while_the_server_does_not_answer(
    stalled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Server):
        async def RepositoryIndex(self, *_: object, **__: object) -> object:  # noqa: N802
            await answer.wait()
            return await super().RepositoryIndex()

    answer = asyncio.Event()
    monkeypatch.setattr(module, "STALL_SECONDS", 0.0)
    triton = TritonClient("127.0.0.1:1", 1024)
    triton._stub = Slow(["work"])
    try:
        looking = asyncio.create_task(triton.list_ready())
        for _ in range(3):
            await asyncio.sleep(0)
        assert not triton.answers
        waiting = asyncio.create_task(list_versions(triton, "work", ANSWER))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()
        if stalled:
            triton.quarantine.add("work")
        answer.set()
        await looking
        if stalled:
            with pytest.raises(InferenceError):
                await waiting
        else:
            assert await waiting == ["1"]
    finally:
        await triton.close()


async def test_a_connection_whose_pings_get_no_answer_quarantines_python_models() -> None:
    class Lost(Call):
        async def read(self) -> object:
            nothing = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, "ping timeout")

    triton = TritonClient("127.0.0.1:1", 1024)
    triton.quarantine.describe("work", python=True, steps=[])
    triton._stream = lambda *_, **__: Lost()
    try:
        with pytest.raises(InferenceError):
            await anext(triton.infer(pb.ModelInferRequest(model_name="net"), []))
        assert triton.quarantine.holds("work")
    finally:
        await triton.close()


class EndlessCall:
    """Never ends."""

    cancels = 0

    async def read(self) -> object:
        return read_message(b"")

    def cancel(self) -> None:
        self.cancels += 1


async def test_closing_the_generator_cancels_the_call() -> None:
    triton, call = TritonClient("127.0.0.1:1", 1024), EndlessCall()
    triton._stream = lambda *_, **__: call
    responses = triton.infer(pb.ModelInferRequest(), [])
    await anext(responses)
    await responses.aclose()
    assert call.cancels == 1
    await triton.close()


@pytest.mark.parametrize(("setting", "logged"), [("3600", []), ("0", []), ("an hour", ["model.reuse_refused"])])
async def test_a_setting_of_reuse_that_cannot_be_read_is_logged(
    setting: str, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    triton, triton_server = TritonClient("127.0.0.1:1", 1024), Server(["echo"])
    triton_server.reuse_seconds = setting
    triton._stub = triton_server
    try:
        await triton.describe("echo", "1")
    finally:
        await triton.close()
    assert [record.message for record in caplog.records if record.message.startswith("model.")] == logged
