"""Asks a language model, and reads its answer as it comes. The gateway cancels the job of a client that leaves."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from charonia import Charonia
from charonia._sync.transport import read_events
from charonia.calls import EVENT_STREAM, JOB_HEADER, Call, Deadline, add_headers, decode, post
from charonia.cli.exits import limit_wait
from charonia.errors import APIError, CharoniaError, ConnectionFailed, DeadlineExceeded
from charonia.openai_schemas import Chunk, TokenUsage
from charonia.sse import Parser

PATH = "/openai/v1/chat/completions"
END = "[DONE]"
STILL_RUNNING = (503, 504)  # the gateway waits no longer, whatever becomes of the job


class Answer(msgspec.Struct, kw_only=True):
    """What is known of an answer so far."""

    job_id: str
    text: str = ""
    finish_reason: str | None = None
    usage: TokenUsage | None = None


def ask(
    client: Charonia,
    request: Mapping[str, Any],
    timeout: float,
    on_start: Callable[[Answer], None],
    on_text: Callable[[str], None],
) -> Answer:
    """Return the answer. It gives each part to `on_text` as it comes.

    Whatever ends it earlier closes the stream, so that the gateway cancels the job. Raise APIError, ConnectionFailed if
    the stream breaks, WaitEnded after `timeout` seconds, and CharoniaError if the job fails.
    """
    body = {**request, "stream": True, "stream_options": {"include_usage": True}}
    call = add_headers(post(PATH, body), {"Accept": EVENT_STREAM})
    with limit_wait(timeout) as deadline, client._transport.open(call, deadline) as response:
        answer = Answer(job_id=response.headers.get(JOB_HEADER, ""))
        on_start(answer)
        for event in read_events(response, Parser()):
            if event is None:
                check(deadline, answer)
            elif event.data == END:
                return answer
            else:
                take(answer, decode(event.data.encode(), Chunk), on_text)
    text = f"the connection broke, and {answer.job_id} is canceled with it; ask again"
    raise ConnectionFailed(text)


def take(answer: Answer, chunk: Chunk, on_text: Callable[[str], None]) -> None:
    """Add a chunk to the answer. Raise CharoniaError if it tells of an error."""
    if chunk.error is not None:
        raise CharoniaError(f"{answer.job_id}: {chunk.error.message} ({chunk.error.code})")
    for choice in chunk.choices:
        if choice.delta.content:
            answer.text += choice.delta.content
            on_text(choice.delta.content)
        answer.finish_reason = choice.finish_reason or answer.finish_reason
    answer.usage = chunk.usage or answer.usage


def check(deadline: Deadline, answer: Answer) -> None:
    try:
        deadline.check("the answer")
    except DeadlineExceeded as error:
        raise DeadlineExceeded(f"{error}. {answer.job_id} is canceled") from None


def complete(client: Charonia, request: Mapping[str, Any], timeout: float) -> bytes:
    """Return the whole answer as OpenAI's API has it. Raises as `ask` does."""
    call: Call = post(PATH, dict(request))._replace(wait=timeout)
    with explain_failure(), limit_wait(timeout):
        return client._transport.send(call, 0.0)


@contextmanager
def explain_failure() -> Iterator[None]:
    """Raise CharoniaError in place of an APIError that says how a job failed."""
    try:
        yield
    except APIError as error:
        if error.job_id is None or error.status in STILL_RUNNING:
            raise
        raise CharoniaError(f"{error.job_id}: {error.detail} ({error.code})") from error
