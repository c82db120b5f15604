"""The client's streams: wrong answers, stalled models and cancelled calls."""

import contextlib

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb

from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.errors import WRONG_REQUEST, InferenceError, TritonUnavailable


class Call:
    """Returns these messages, then ends."""

    def __init__(self, *messages: object) -> None:
        self.messages = [*messages, grpc.aio.EOF]

    async def read(self) -> object:
        return self.messages.pop(0)

    def cancel(self) -> None:
        pass


class Server:
    """Lists these models as ready. A string is the details of an error instead."""

    def __init__(self, index: str | list[str]) -> None:
        self.index = index

    async def RepositoryIndex(self, *_: object, **__: object) -> object:  # noqa: N802 - the stub's name
        if isinstance(self.index, str):
            nothing = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, self.index)
        models = [pb.RepositoryIndexResponse.ModelIndex(name=name, version="1", state="READY") for name in self.index]
        return pb.RepositoryIndexResponse(models=models)

    async def ServerLive(self, *_: object, **__: object) -> object:  # noqa: N802
        return pb.ServerLiveResponse(live=True)


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
                triton.quarantine.release_reloaded(())
            return await super().read()

    try:
        triton._stream = lambda *_, **__: Slow(ANSWER)
        with pytest.raises(InferenceError) as caught:
            await anext(triton.infer(pb.ModelInferRequest(model_name="work"), []))
        assert caught.value.refused
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


class EndlessCall:
    """Never ends."""

    cancels = 0

    async def read(self) -> object:
        return pb.ModelStreamInferResponse()

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
