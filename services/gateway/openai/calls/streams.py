"""Streams what a model writes, as server-sent events in OpenAI's form."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from http import HTTPStatus
from typing import Protocol

import msgspec
from litestar.response import Stream

from common import ids
from common.errors import Unavailable
from common.event_types import TERMINAL_EVENTS
from common.job_states import TERMINAL, Status
from common.jobs.job import Job
from common.telemetry.logs import Log
from common.views.job import job_log_fields
from services.gateway.auth.authentication import Authenticator
from services.gateway.events.history import Event, JobHistory
from services.gateway.events.routes import until_revoked
from services.gateway.events.store import START
from services.gateway.http.limits.response_limits import find_response_lease
from services.gateway.http.negotiation import EVENT_STREAM
from services.gateway.http.problems import LATER, Problem
from services.gateway.open_inference.inference import explain_failure, still_running
from services.gateway.openai.calls.answer import Answers, explain
from services.gateway.openai.calls.restarts import Diverged, SentText
from services.gateway.openai.calls.submission import Call, Caller
from services.gateway.openai.calls.translation import Shown
from services.gateway.openai.kinds.pieces import Outputs, Transcript, UnreadableOutput, read_piece
from services.gateway.openai.problems import erased, shape_error, unreadable

KEEP_ALIVE = b":\n"  # a comment; it reveals a client that disconnected
DONE = b"data: [DONE]\n\n"
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

log = Log("openai")


class ChunkWriter(Protocol):
    """Writes the chunks of one answer, as JSON."""

    def write_text(self, text: str) -> bytes: ...

    def write_end(self, transcript: Transcript) -> list[bytes]:
        """Return the chunks after the text: tool calls, the reason of the end, and the usage if it is asked for."""
        ...


class OutputData(msgspec.Struct, frozen=True):
    outputs: msgspec.Raw = msgspec.Raw(b"[]")


class OutputEvent(msgspec.Struct, frozen=True):
    """The body of a `job.output`."""

    data: OutputData


class Streams:
    """Opens streams of what models write."""

    def __init__(self, history: JobHistory, authenticator: Authenticator, answers: Answers) -> None:
        self._history = history
        self._authenticator = authenticator
        self._answers = answers
        self._canceling: set[asyncio.Task[None]] = set()

    def check_capacity(self, request: Caller) -> None:
        """Raises Problem (429, 503) without capacity for one more."""
        self._history.waiters.check_capacity(request.user.tenant_id)

    def open(self, request: Caller, call: Call, writer: ChunkWriter) -> Stream:
        """Return the stream of a request's job.

        The job is canceled if the client leaves before its end, or this gateway stops, and the client has no
        idempotency key to come back with.
        """
        sending = self._send(request, call, writer)
        return Stream(sending, status_code=HTTPStatus.OK, media_type=EVENT_STREAM, headers=HEADERS | call.headers)

    async def _send(self, request: Caller, call: Call, writer: ChunkWriter) -> AsyncIterator[bytes]:
        yield KEEP_ALIVE  # so that a proxy sees the stream begin
        has_left, is_over = True, False
        try:
            async with aclosing(self._follow(request, call, writer)) as chunks:
                async for chunk in chunks:
                    yield chunk
            has_left, is_over = False, True
            yield DONE
        except (Problem, Unavailable) as error:
            problem = error if isinstance(error, Problem) else unavailable()
            has_left, is_over = False, problem.code != "unavailable"
            log.info("openai.stream_failed", **job_log_fields(call.row), code=problem.code)
            yield b"event: error\ndata: %b\n\n" % msgspec.json.encode(shape_error(problem)[1])
        finally:
            if has_left:
                log.info("job.client_disconnected", **job_log_fields(call.row))
            if not is_over and not call.is_kept:
                self.cancel_soon(call)

    def cancel_soon(self, call: Call) -> None:
        """Cancel a job in a task of its own: that of a request whose client has left is canceled itself."""
        task = asyncio.create_task(self._answers.inference.cancel(call.row))
        self._canceling.add(task)
        task.add_done_callback(self._canceling.discard)

    async def _follow(self, request: Caller, call: Call, writer: ChunkWriter) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of a job until it has succeeded. Raises Problem for every other end."""
        lease = find_response_lease(request.scope)
        progress = Progress(call.shown)
        following = self._history.follow(call.row.id, request.user, lease, START)
        has_ended = False
        async with aclosing(until_revoked(self._authenticator, request, following)) as events:
            async for event in events:
                if event is None:
                    yield KEEP_ALIVE
                    continue
                has_ended = event.type in TERMINAL_EVENTS
                for outputs in await self.read_event(request, call.row, event):
                    if text := progress.add(event, outputs):
                        yield frame(writer.write_text(text))
        for text in await self._finish(request, call, progress, has_ended):
            yield frame(writer.write_text(text))
        for body in writer.write_end(progress.transcript):
            yield frame(body)

    async def read_event(self, request: Caller, row: Job, event: Event) -> list[Outputs]:
        """Return the outputs in an event: of one response, if it has any."""
        if event.type != "job.output":
            return []
        stored = msgspec.json.decode(event.body, type=OutputEvent).data.outputs
        return await self._answers.reader.read(row.tenant_id, bytes(stored), find_response_lease(request.scope))

    async def _finish(self, request: Caller, call: Call, progress: "Progress", has_ended: bool) -> list[str]:
        """Return the rest of the text of a job that has succeeded. Raises Problem for every other state."""
        found = await self._answers.inference.store.find_job(call.row.id, call.row.tenant_id)
        job_id = ids.encode(ids.Kind.JOB, call.row.id)
        if found is None:
            raise Problem(HTTPStatus.GONE, "gone", f"{job_id} was deleted; its retention time is over")
        if not (has_ended or found.row.status in TERMINAL):
            raise still_running(job_id, "the stream has ended before the job")
        if found.row.status is not Status.SUCCEEDED:
            raise explain(explain_failure(found.row, job_id), call)
        if found.erased:
            raise erased(job_id)
        texts = []
        if not progress.has_pieces:  # the model does not stream
            texts = [progress.take(outputs) for outputs in await self._answers.read(request, found)]
        return [text for text in (*texts, progress.end(found.row)) if text]


class Progress:
    """What a stream has sent, and what the model says of it."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self.transcript = self._begin()
        self.has_pieces = False
        self._sent = SentText()
        self._claim = ""

    def _begin(self) -> Transcript:
        return Transcript(self._shown.stop, self._shown.max_tokens)

    def add(self, event: Event, outputs: Outputs) -> str:
        """Return the new text of a response, or nothing. Raises Problem if a new attempt writes another text."""
        claim, _, _ = event.id.partition(".")
        if self.has_pieces and claim != self._claim:
            self.transcript = self._begin()
            self._sent.begin_again()
        self._claim, self.has_pieces = claim, True
        return self.take(outputs)

    def take(self, outputs: Outputs) -> str:
        try:
            return self._send(self.transcript.add(read_piece(outputs)))
        except UnreadableOutput as error:
            raise unreadable(error) from error

    def end(self, row: Job) -> str:
        """Return what is left of the text of a job that has succeeded. Raises Problem as `add` does."""
        rest = self._send(self.transcript.end(row.finish_reason))
        try:
            self._sent.end()
        except Diverged:
            raise diverged() from None
        return rest

    def _send(self, text: str) -> str:
        try:
            return self._sent.add(text)
        except Diverged:
            raise diverged() from None


def frame(body: bytes) -> bytes:
    return b"data: %b\n\n" % body


def diverged() -> Problem:
    text = (
        "the model's server failed after a part of this text, and the next attempt writes another text; ask again, "
        "with a seed or a temperature of 0 if the model can repeat itself"
    )
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "stream_restarted", text)


def unavailable() -> Problem:
    text = "a dependency does not answer or is overloaded; try again later"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers=LATER)
