"""An answer of a language model is printed as it comes."""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import pytest
from charonia import APIError, Charonia, NotFound
from charonia.cli.arguments import InvalidArgument
from charonia.cli.chat.answers import Answer, ask, complete
from charonia.cli.commands import chat as command
from charonia.cli.commands.chat import chat, describe
from charonia.cli.exits import WaitEnded
from charonia.cli.session import Session
from charonia.errors import CharoniaError, ConnectionFailed
from charonia.openai_schemas import TokenUsage

JOB = "job_01h455vb4pex5vsknk084sn02q"
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
ERROR = {"error": {"message": "the model failed", "type": "server_error", "param": None, "code": "inference_failed"}}


def write_chunk(text: str | None, reason: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {} if text is None else {"content": text}, "finish_reason": reason}
    return b"data: %b\n\n" % json.dumps({"id": "chatcmpl_1", "choices": [choice], **more}).encode()


WHOLE = [
    b":\n",
    write_chunk("one"),
    write_chunk(" two", usage=None),
    write_chunk(None, "length"),
    b"data: %b\n\n" % json.dumps({"choices": [], "usage": USAGE}).encode(),
    b"data: [DONE]\n\n",
]


class Gateway(httpx.MockTransport):
    """Answers each request with the next of these streams, and keeps the requests."""

    def __init__(self, *streams: Sequence[bytes], status: int = 200, has_job: bool = True) -> None:
        super().__init__(self._answer)
        self._streams, self._status = iter(streams), status
        self._headers = {"X-Charonia-Job": JOB} if has_job else {}
        self.requests: list[dict[str, Any]] = []

    def _answer(self, request: httpx.Request) -> httpx.Response:
        assert (request.method, request.url.path) == ("POST", "/openai/v1/chat/completions")
        self.requests.append(json.loads(request.content))
        return httpx.Response(self._status, headers=self._headers, stream=Chunks(next(self._streams)))


class Chunks(httpx.SyncByteStream):
    """A body in pieces. None of them stands for Ctrl-C."""

    def __init__(self, chunks: Sequence[bytes | None]) -> None:
        self._chunks = chunks
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if chunk is None:
                raise KeyboardInterrupt
            yield chunk

    def close(self) -> None:
        self.is_closed = True


def make_client(gateway: Gateway) -> Charonia:
    return Charonia("http://gateway", "k", http=httpx.Client(transport=gateway))


def make_session(gateway: Gateway, *, as_json: bool | None = None) -> Session:
    session = Session(None, as_json)
    session.__dict__["client"] = make_client(gateway)
    return session


def ask_for(*stream: bytes, on_text: Callable[[str], None] = lambda _: None, status: int = 200) -> Answer:
    return ask(make_client(Gateway(stream, status=status)), REQUEST, 10.0, lambda _: None, on_text)


def test_an_answer_comes_in_parts_with_its_tokens_at_the_end() -> None:
    parts: list[str] = []
    answer = ask_for(*WHOLE, on_text=parts.append)
    assert parts == ["one", " two"]
    assert answer == Answer(job_id=JOB, text="one two", finish_reason="length", usage=TokenUsage(3, 2))


def test_a_stream_that_breaks_is_no_answer() -> None:
    with pytest.raises(ConnectionFailed, match=JOB):
        ask_for(*WHOLE[:3])


def test_an_error_in_the_stream_is_that_of_the_job() -> None:
    with pytest.raises(CharoniaError, match="the model failed") as caught:
        ask_for(WHOLE[1], b"event: error\ndata: %b\n\n" % json.dumps(ERROR).encode())
    assert not isinstance(caught.value, APIError)


def test_a_refusal_in_openais_form_is_an_error_of_the_api() -> None:
    body = {"error": {"message": "no such model", "type": "x", "param": "model", "code": "model_not_found"}}
    with pytest.raises(NotFound, match="no such model") as caught:
        ask_for(json.dumps(body).encode(), status=404)
    assert caught.value.code == "model_not_found"


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(WaitEnded, match=f"{JOB} is canceled"):
        ask(make_client(Gateway(WHOLE)), REQUEST, 0.0, lambda _: None, lambda _: None)


def test_a_whole_answer_that_takes_too_long_is_given_up() -> None:
    def hang(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("nothing came", request=request)

    with (
        Charonia("http://gateway", "k", http=httpx.Client(transport=httpx.MockTransport(hang))) as client,
        pytest.raises(WaitEnded),
    ):
        complete(client, REQUEST, 0.0)


@pytest.mark.parametrize(
    ("status", "has_job", "is_refused"),
    [(500, True, False), (400, True, False), (400, False, True), (503, True, True), (504, True, True)],
)
def test_a_whole_answer_says_whether_the_job_failed(status: int, has_job: bool, is_refused: bool) -> None:
    gateway = Gateway([json.dumps(ERROR).encode()], status=status, has_job=has_job)
    with pytest.raises(CharoniaError, match="the model failed") as caught:
        complete(make_client(gateway), REQUEST, 10.0)
    assert isinstance(caught.value, APIError) is is_refused
    assert (JOB in str(caught.value)) is not is_refused


def test_the_text_goes_to_a_pipe_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    gateway = Gateway([write_chunk("a\x1b["), *WHOLE[1:]])
    chat(make_session(gateway), "m", "hi", system="short", max_tokens=7, stop=["x"], priority="low", metadata=["n=1"])
    shown = capsys.readouterr()
    assert shown.out == "a\x1b[one two\n"
    assert JOB in shown.err
    assert "3 + 2 tokens" in shown.err
    (request,) = gateway.requests
    assert request == {
        "model": "m",
        "max_completion_tokens": 7,
        "stop": ["x"],
        "service_tier": "flex",
        "metadata": {"n": "1"},
        "messages": [{"role": "system", "content": "short"}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_terminal_shows_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    session = make_session(Gateway([write_chunk("a\x1b["), *WHOLE[1:]]))
    session.out._force_terminal = True
    chat(session, "m", "hi")
    assert capsys.readouterr().out == "a\\x1b[one two\n"


def test_json_is_the_answer_of_the_api(capsys: pytest.CaptureFixture[str]) -> None:
    gateway = Gateway([b'{"id":\n"chatcmpl_1"}'])
    chat(make_session(gateway, as_json=True), "m", "hi")
    assert capsys.readouterr().out == '{"id": "chatcmpl_1"}\n'
    assert "stream" not in gateway.requests[0]


def test_ctrl_c_leaves_and_tells_what_is_canceled(capsys: pytest.CaptureFixture[str]) -> None:
    gateway = Gateway([WHOLE[1], None])  # type: ignore[list-item]
    with pytest.raises(KeyboardInterrupt):
        chat(make_session(gateway), "m", "hi")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("one\n", f"canceled: {JOB}\n")


def test_a_conversation_sends_what_was_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Gateway(WHOLE, WHOLE)
    monkeypatch.setattr(command, "read_prompts", lambda *_: iter(["first", "second"]))
    chat(make_session(gateway), "m", system=None)
    assert [message["content"] for message in gateway.requests[1]["messages"]] == ["first", "one two", "second"]


@pytest.mark.parametrize(
    ("content", "text"), [(b" \n", "nothing to ask"), (b"\xff", "UTF-8"), (b"x" * 9, "more than 8 bytes")]
)
def test_input_that_is_no_prompt_is_refused(monkeypatch: pytest.MonkeyPatch, content: bytes, text: str) -> None:
    monkeypatch.setattr(command, "MAX_PROMPT", 8)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(InvalidArgument, match=text):
        chat(make_session(Gateway()), "m", "-")


def test_a_short_answer_without_tokens_has_only_its_job() -> None:
    assert describe(Answer(job_id=JOB, finish_reason="stop")) == JOB
