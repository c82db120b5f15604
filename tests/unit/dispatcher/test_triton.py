"""What Triton's errors mean: messages as the server sends them. And that no call outlives who made it."""

import contextlib

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb

from services.dispatcher.triton import STRANGE, InferenceError, Triton, TritonDown, explain

INVALID = "[request id: <id_unknown>] "
STOPPING = "Server is stopping, scheduler for model has stopped accepting new inference requests"

# message, code of ours, may it help to try again, is the server or the model away
MESSAGES = [
    ("Request for unknown model: 'nope' is not found", "model_not_found", False, False),
    ("Request for unknown model: 'echo' version 7 is not found", "model_not_found", False, False),
    ("Request for unknown model: 'm' has no available versions", "model_unavailable", True, True),
    (
        INVALID + "inference input 'x' data-type is 'INT32', but model 'echo' expects 'FP32'",
        "invalid_input",
        False,
        False,
    ),
    (
        INVALID + "unexpected shape for input 'a' for model 'fixed'. Expected [-1,4], got [1,5].",
        "invalid_input",
        False,
        False,
    ),
    (
        INVALID + "expected number of inputs between 2 and 3 but got 1 inputs for model 'fixed'.",
        "invalid_input",
        False,
        False,
    ),
    (INVALID + "unexpected inference input 'zzz' for model 'fixed'", "invalid_input", False, False),
    ("INVALID_ARG: not an image", "invalid_input", False, False),
    ("UNSUPPORTED: colour", "inference_refused", False, False),
    ("Failed to process the request(s) for model 'ctl_0_0', message: RuntimeError: x", "inference_failed", True, False),
    ("Request timeout expired", "triton_queue_timeout", True, False),
    ("[request id: qf5] Exceeds maximum queue size", "triton_queue_full", True, False),
    ("[request id: a] " + STOPPING, "triton_unavailable", True, True),
    ("Stub process 'ctl_0_0' is not healthy.", "model_crashed", True, False),
    (
        "[request id: 1] Failed to process the request(s) for model instance 'm', message: Stub process is not healthy",
        *("model_crashed", True, False),
    ),
    ("Failed to obtain the health mutex.", "model_crashed", True, False),
    ("ValueError: no such label: Stub process x is not healthy", "inference_failed", True, False),
    ("unavailable as asked", "inference_failed", True, False),
    ("", "inference_failed", True, False),
]
CALLS = [
    (
        grpc.StatusCode.UNAVAILABLE,
        "failed to connect to all addresses; last error: …",
        "triton_unavailable",
        True,
        True,
    ),
    (grpc.StatusCode.UNAVAILABLE, "Stream removed (Socket closed)", "triton_unavailable", True, True),
    (grpc.StatusCode.UNAVAILABLE, "[request id: qf5] Exceeds maximum queue size", "triton_queue_full", True, False),
    (grpc.StatusCode.CANCELLED, "", "triton_unavailable", True, True),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "CLIENT: Sent message larger than max (9 vs. 8)", "too_large", False, False),
    (grpc.StatusCode.UNIMPLEMENTED, "ModelInfer RPC doesn't support models with …", "unsupported", False, False),
    (grpc.StatusCode.INTERNAL, "something else", "triton_unavailable", True, True),
]


@pytest.mark.parametrize(("message", "code", "retryable", "outage"), MESSAGES)
def test_a_message_says_whether_trying_again_may_help(message: str, code: str, retryable: bool, outage: bool) -> None:
    error = explain(message)
    assert (error.failure.code, error.failure.retryable, error.outage) == (code, retryable, outage)


@pytest.mark.parametrize(("status", "message", "code", "retryable", "outage"), CALLS)
def test_a_failed_call_says_whether_triton_is_away(
    status: grpc.StatusCode, message: str, code: str, retryable: bool, outage: bool
) -> None:
    error = explain(message, status)
    assert (error.failure.code, error.failure.retryable, error.outage) == (code, retryable, outage)


@pytest.mark.parametrize(
    ("status", "message", "refused"),
    [
        (None, "Request for unknown model: 'm' has no available versions", True),
        (None, "[request id: qf5] Exceeds maximum queue size", True),
        (None, STOPPING, True),
        (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: …", True),
        (None, "failed to connect to all addresses; last error: …", False),  # a model says so
        (grpc.StatusCode.UNAVAILABLE, "Stream removed (Socket closed)", False),
        (None, "Request timeout expired", False),
        (None, "Stub process 'ctl_0_0' is not healthy.", False),
    ],
)
def test_what_triton_did_not_take_is_told_from_what_broke_under_it(
    status: grpc.StatusCode | None, message: str, refused: bool
) -> None:
    assert explain(message, status).refused is refused


def test_paths_of_the_server_and_request_ids_are_not_shown() -> None:
    text = "Failed to process the request(s) for model 'm_0_0', message: RuntimeError: hello"
    error = explain(f"[request id: job_1] {text}\n\nAt:\n  /srv/models/m/1/model.py(16): execute\n")
    assert error.failure.message == text


def test_a_long_message_is_cut() -> None:
    assert len(explain("x" * 10_000).failure.message) == 2000


class Call:
    """Answers these messages, and ends."""

    def __init__(self, *messages: object) -> None:
        self.messages = [*messages, grpc.aio.EOF]

    async def read(self) -> object:
        return self.messages.pop(0)

    def cancel(self) -> None:
        pass


class Server:
    """Its models are ready, or it is away, as its `index` says."""

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


SILENT = pb.ModelStreamInferResponse(error_message="Stub process 'work_0_0' is not healthy.")
ANSWER = pb.ModelStreamInferResponse(infer_response=pb.ModelInferResponse(model_version="1"))


async def ask(triton: Triton, model: str, *messages: object) -> list[str]:
    triton.stream = lambda *_, **__: Call(*messages)
    return [response.version async for response in triton.infer(pb.ModelInferRequest(model_name=model), [])]


async def test_an_answer_to_another_request_is_none() -> None:
    """The stream is read to its end all the same: a cancel in its midst can crash the server."""
    triton = Triton("127.0.0.1:1", 1024)
    own, strange = (
        pb.ModelStreamInferResponse(infer_response=pb.ModelInferResponse(id=job)) for job in ("job_1", "job_2")
    )
    call = Call(own, strange, own)
    triton.stream = lambda *_, **__: call
    try:
        found = triton.infer(pb.ModelInferRequest(model_name="echo", id="job_1"), [])
        await anext(found)
        with pytest.raises(InferenceError) as caught:
            await anext(found)
        assert (caught.value.failure, caught.value.failure.retryable, call.messages) == (STRANGE, True, [])
    finally:
        await triton.close()


async def refuse(triton: Triton, *messages: object) -> InferenceError:
    with pytest.raises(InferenceError) as caught:
        await ask(triton, "work", *messages)
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("model_crashed", True)
    return caught.value


@pytest.mark.parametrize(
    ("index", "believed"),
    [
        (["work", "echo"], False),
        ("keepalive watchdog timeout", False),
        (["echo"], True),
        ("failed to connect to all addresses; last error: Connection refused", True),
    ],
)
async def test_a_model_whose_process_fell_silent_is_believed_once_it_was_away(
    index: str | list[str], believed: bool
) -> None:
    triton = Triton("127.0.0.1:1", 1024)
    try:
        assert await ask(triton, "work", ANSWER) == ["1"]
        assert not (await refuse(triton, SILENT)).refused
        assert (await refuse(triton, ANSWER)).refused  # so it costs no attempt
        assert await ask(triton, "echo", ANSWER) == ["1"]
        triton.stub = Server(index)
        with contextlib.suppress(TritonDown):
            await triton.list_ready()
        if believed:
            assert await ask(triton, "work", ANSWER) == ["1"]
        else:
            assert (await refuse(triton, ANSWER)).refused
    finally:
        await triton.close()


async def test_nothing_is_taken_from_a_silent_model_that_was_asked_before() -> None:
    """Also where it was away meanwhile: the answer is of before."""
    triton = Triton("127.0.0.1:1", 1024)

    class Slow(Call):
        async def read(self) -> object:
            if len(self.messages) == 2:
                triton.trust.lose("work")
                triton.trust.keep(())
            return await super().read()

    try:
        triton.stream = lambda *_, **__: Slow(ANSWER)
        with pytest.raises(InferenceError) as caught:
            await anext(triton.infer(pb.ModelInferRequest(model_name="work"), []))
        assert caught.value.refused
        assert await ask(triton, "work", ANSWER) == ["1"]
    finally:
        await triton.close()


async def test_a_model_that_fell_silent_after_another_error_is_not_believed() -> None:
    triton = Triton("127.0.0.1:1", 1024)
    try:
        with pytest.raises(InferenceError):
            await ask(triton, "work", pb.ModelStreamInferResponse(error_message="something else"), SILENT)
        assert (await refuse(triton, ANSWER)).refused
    finally:
        await triton.close()


class EndlessCall:
    """Answers on and on."""

    cancels = 0

    async def read(self) -> object:
        return pb.ModelStreamInferResponse()

    def cancel(self) -> None:
        self.cancels += 1


async def test_who_listens_no_longer_cancels_the_call() -> None:
    triton, call = Triton("127.0.0.1:1", 1024), EndlessCall()
    triton.stream = lambda *_, **__: call
    responses = triton.infer(pb.ModelInferRequest(), [])
    await anext(responses)
    await responses.aclose()
    assert call.cancels == 1
    await triton.close()
