"""Streams a response: its events as they come, or those after the last that a client got."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from http import HTTPStatus

import msgspec
from litestar.response import Stream

from common.errors import Unavailable
from common.job_states import TERMINAL, Status
from common.jobs.job import Job
from common.telemetry.logs import Log
from common.views.job import job_log_fields
from services.gateway.events.routes import until_revoked
from services.gateway.events.store import START
from services.gateway.http.limits.response_limits import find_response_lease
from services.gateway.http.negotiation import EVENT_STREAM
from services.gateway.http.problems import LATER, FieldError, Problem, invalid
from services.gateway.openai.calls.answer import join
from services.gateway.openai.calls.streams import HEADERS, KEEP_ALIVE, Progress, unavailable
from services.gateway.openai.calls.submission import Call, Caller
from services.gateway.openai.dependencies import OpenAIServices
from services.gateway.openai.ids import Prefix, encode
from services.gateway.openai.problems import shape_error
from services.gateway.openai.responses.echo import Echo, show
from services.gateway.openai.responses.events import EventWriter
from services.gateway.openai.responses.rendering import Answer, write_response
from services.gateway.openai.responses.views import OpenAIResponse

log = Log("openai")


def stream_created(services: OpenAIServices, caller: Caller, call: Call, echo: Echo) -> Stream:
    """Return the stream of a new response.

    The job is canceled if the client leaves before its end, unless it is kept: the client can come back for it.
    """
    sending = ResponseStream(services, caller, call.row, echo).send(None if call.is_kept else call)
    return Stream(sending, status_code=HTTPStatus.OK, media_type=EVENT_STREAM, headers=HEADERS | call.headers)


def stream_stored(services: OpenAIServices, caller: Caller, row: Job, echo: Echo, after: int) -> Stream:
    """Return the stream of a stored response, after the event with a number. -1 is before the first."""
    sending = ResponseStream(services, caller, row, echo, after).send()
    return Stream(sending, status_code=HTTPStatus.OK, media_type=EVENT_STREAM, headers=HEADERS)


class ResponseStream:
    """The stream of a response to one client."""

    def __init__(self, services: OpenAIServices, caller: Caller, row: Job, echo: Echo, after: int = -1) -> None:
        self._services = services
        self._caller = caller
        self._row = row
        self._echo = echo
        self._after = after
        self._progress = Progress(show(echo))
        self._writer = EventWriter(encode(Prefix.MESSAGE, row.id), after)

    async def send(self, cancels: Call | None = None) -> AsyncIterator[bytes]:
        """Yield the events.

        Cancel the job of `cancels` if the client leaves before its end, or the stream cannot go on and the response is
        not stored: nobody can come back for it.
        """
        yield KEEP_ALIVE  # so that a proxy sees the stream begin
        has_left, is_lost = True, False
        try:
            async with aclosing(self._follow()) as events:
                async for event in events:
                    yield event
            has_left = False
        except (Problem, Unavailable) as error:
            problem = error if isinstance(error, Problem) else unavailable()
            has_left, is_lost = False, problem.code == "unavailable" and not self._echo.is_stored
            log.info("openai.stream_failed", **job_log_fields(self._row), code=problem.code)
            yield self._writer.write_error(shape_error(problem)[1])
        finally:
            if has_left:
                log.info("job.client_disconnected", **job_log_fields(self._row))
            if cancels is not None and (has_left or is_lost):
                self._services.streams.cancel_soon(cancels)

    async def _follow(self) -> AsyncGenerator[bytes, None]:
        """Yield the events of the job's history.

        Raises Problem if it cannot be read to the end of the job, or ends before the number that a client has sent.
        """
        for event in self._begin():
            yield event
        lease, has_started = find_response_lease(self._caller.scope), False
        following = self._services.jobs.events.history.follow(self._row.id, self._caller.user, lease, START)
        async with aclosing(until_revoked(self._services.jobs.authenticator, self._caller, following)) as history:
            async for each in history:
                if each is None:
                    yield KEEP_ALIVE
                    continue
                if each.type == "job.started" and not has_started:
                    has_started = True
                    for event in self._writer.write_state("response.in_progress", self._view(Status.PROCESSING)):
                        yield event
                for outputs in await self._services.streams.read_event(self._caller, self._row, each):
                    for event in self._write_text(self._progress.add(each, outputs)):
                        yield event
        for event in await self._end():
            yield event
        if self._after > (last := self._writer.last):
            text = f"is {self._after}, and the last event of this response has the number {last}; send the last you got"
            raise invalid(FieldError("starting_after", text))

    def _view(self, status: Status) -> OpenAIResponse:
        """Return the response as it was before its end."""
        return write_response(msgspec.structs.replace(self._row, status=status, started_at=None), self._echo)

    def _begin(self) -> list[bytes]:
        if not self._echo.background:
            return self._writer.write_state("response.created", self._view(Status.PROCESSING))
        queued = self._view(Status.QUEUED)
        return [
            *self._writer.write_state("response.created", queued),
            *self._writer.write_state("response.queued", queued),
        ]

    def _write_text(self, text: str) -> list[bytes]:
        return self._writer.write_text(text) if text else []

    async def _end(self) -> list[bytes]:
        """Return the last events. Raises Problem if the job has not ended, or cannot be read."""
        row = self._row
        found = await self._services.jobs.store.find_job(row.id, row.tenant_id)
        if found is None or found.erased:
            raise Problem(HTTPStatus.GONE, "gone", "the response was deleted while its stream was read")
        if found.row.status not in TERMINAL:
            text = "the stream has ended before the response; get the rest with `stream=true` and `starting_after`"
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers=LATER)
        if found.row.status is not Status.SUCCEEDED:
            return self._writer.write_end(write_response(found.row, self._echo))
        outputs = await self._services.answers.read(self._caller, found)
        events = []
        if not self._progress.has_pieces:  # the model does not stream
            for each in outputs:
                events += self._write_text(self._progress.take(each))
        events += self._write_text(self._progress.end(found.row))
        answer = Answer(*join(found.row, outputs, show(self._echo)))
        return events + self._writer.write_end(write_response(found.row, self._echo, answer))
