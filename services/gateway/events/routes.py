"""HTTP route of a job's events: a list, or a stream of server-sent events."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias
from uuid import UUID

import msgspec
from litestar import Request, Response, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import Parameter
from litestar.response import Stream

from common import ids
from common.errors import Unavailable
from common.job_states import TERMINAL
from common.telemetry import tracing
from common.telemetry.logs import Log
from services.gateway.auth.authentication import Authenticator, Connection
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.events.dependencies import EventServices, Services
from services.gateway.events.history import Event, EventView, JobHistory, format_event_id, parse_event_id
from services.gateway.events.schemas import EventItem, EventPage
from services.gateway.events.store import START, EventPosition, JobSnapshot
from services.gateway.http.limits.response_limits import ResponseLease, find_response_lease
from services.gateway.http.negotiation import EVENT_STREAM, prefers
from services.gateway.http.parameters import Limit, parse_id
from services.gateway.http.problems import (
    WITH_ID,
    FieldError,
    Problem,
    document,
    invalid,
    not_found,
)

RETRY_MS = 1000  # before a client reconnects
LAST_EVENT_ID = "Last-Event-ID"

Events: TypeAlias = AsyncGenerator[Event | None, None]

log = Log("events")


@get(
    "/{job_id:str}/events",
    summary="List or stream the events of a job",
    operation_id="list_events",
    **needs(Scope.READ),
    responses={
        200: ResponseSpec(EventPage, description="A page, or the stream", generate_examples=False),
        204: ResponseSpec(None, description="The job has ended, and there is no event after `Last-Event-ID`"),
        **document(*WITH_ID),
    },
)
async def list_events(
    request: Request[Key, Any, Any],
    job_id: str,
    services: Services,
    limit: Limit = 100,
    cursor: Annotated[
        str | None,
        Parameter(description="The `next_cursor` of the page before, or the `position` of an event: only later ones."),
    ] = None,
    last_event_id: Annotated[
        str | None,
        Parameter(header=LAST_EVENT_ID, description="The position of an event. The stream starts after it."),
    ] = None,
) -> Response[Any]:
    """Return a list, oldest first, or a stream until the job ends.

    `Accept: text/event-stream` selects the stream, unless it prefers JSON.

    To poll a job that runs, pass the `position` of the last event you have as `cursor`.
    """
    history, lease = services.history, find_response_lease(request.scope)
    parsed = await find_job(history, job_id, request.user.tenant_id)
    after = parse_position(LAST_EVENT_ID, last_event_id)
    if not wants_stream(request):
        return Response(await read_page(history, parsed, request.user, lease, parse_position("cursor", cursor), limit))
    if cursor is not None:
        raise invalid(FieldError("cursor", f"is only for lists; to resume a stream, send {LAST_EVENT_ID}"))
    snapshot = await check_position(history, parsed, LAST_EVENT_ID, after)
    has_ended = snapshot is not None and snapshot.status in TERMINAL
    if after != START and has_ended and not await history.has_events(parsed, after):
        return Response(None, status_code=HTTPStatus.NO_CONTENT)  # a browser does not reconnect after a 204
    history.waiters.check_capacity(request.user.tenant_id)  # now, while the response may still be an error
    return open_stream(services, request, parsed, after)


def wants_stream(request: Request[Key, Any, Any]) -> bool:
    """Return whether the caller asked for a stream of events, and does not prefer JSON."""
    return prefers(",".join(request.headers.getall("accept", [])), EVENT_STREAM)


def open_stream(
    services: EventServices,
    request: Request[Key, Any, Any],
    job_id: UUID,
    after: EventPosition = START,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Stream:
    """Return the stream of a job's events after a position. The caller checked that the job is the tenant's."""
    lease = find_response_lease(request.scope)
    events = services.history.follow(job_id, request.user, lease, after)
    return make_stream(services.authenticator, request, events, headers, job_id=ids.encode(ids.Kind.JOB, job_id))


def make_stream(
    authenticator: Authenticator,
    request: Request[Key, Any, Any],
    events: Events,
    headers: Mapping[str, str] = MappingProxyType({}),
    **shown: str,
) -> Stream:
    """Return the stream of events, while the caller's key is valid. Logs have the fields `shown`."""
    sending = send_events(until_revoked(authenticator, request, events), **shown)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", **headers}
    return Stream(sending, status_code=HTTPStatus.OK, media_type=EVENT_STREAM, headers=headers)


async def find_job(history: JobHistory, job_id: str, tenant_id: UUID) -> UUID:
    """Return the id of the tenant's job, and link this request to the job's trace. Raises Problem (404)."""
    parsed = parse_id(ids.Kind.JOB, job_id)
    traceparent = await history.store.find_traceparent(parsed, tenant_id)
    if traceparent is None:
        raise not_found("job")
    tracing.add_link(traceparent)
    return parsed


def parse_position(name: str, text: str | None) -> EventPosition:
    """Return the position that a client sent, or START without one. Raises Problem (422) that names the parameter."""
    position = parse_event_id(text) if text else START
    if position is None:
        raise invalid(FieldError(name, "is not the position of an event; use one that this API returned"))
    return position


async def check_position(history: JobHistory, job_id: UUID, name: str, after: EventPosition) -> JobSnapshot | None:
    """Return the job's snapshot. Raises Problem (422) for a future position: the stream would skip events."""
    snapshot = await history.waiters.find_snapshot(job_id)
    if snapshot is not None and after.claim > snapshot.claim:
        raise invalid(FieldError(name, "is not the position of an event of this job; use one that its events have"))
    return snapshot


async def read_page(
    history: JobHistory, job_id: UUID, key: Key, lease: ResponseLease, after: EventPosition, limit: int
) -> EventPage:
    events, has_more, last = await history.read(job_id, key, lease, after, limit + 1)
    shown = events[:limit]
    cursor = shown[-1].id if len(events) > limit else format_event_id(last)
    return EventPage([view_event(event) for event in shown], cursor if has_more else None)


def view_event(event: Event) -> EventItem:
    view = msgspec.json.decode(event.body, type=EventView)
    return EventItem(event.id, view.type, view.timestamp, view.data, view.sequence)


async def until_revoked(authenticator: Authenticator, connection: Connection, following: Events) -> Events:
    """Yield events while the caller's key is valid. Raises Problem (401) before it yields one after a revocation."""
    async with aclosing(following) as events:
        async for event in events:
            if event is not None:
                await authenticator.recheck(connection)
            yield event
            del event  # it may be large, and the next one may take an hour


async def send_events(following: Events, **shown: str) -> AsyncIterator[bytes]:
    """Yield the lines of the stream. A keep-alive is a comment; it reveals a client that disconnected.

    A blank line stands only after an event: some clients take every block for an event, even one without data.
    """
    yield b":\n"  # so that a proxy sees the stream begin
    retry = b"retry: %d\n" % RETRY_MS
    try:
        async with aclosing(following) as events:
            async for event in events:
                if event is None:
                    yield b":\n"
                else:
                    names = event.id.encode(), event.type.encode()
                    yield retry + b"id: %b\nevent: %b\ndata: %b\n" % (*names, event.body)
                    retry = b""
                    del event
                    yield b"\n"  # the server forgets what it has sent only once it has the next part
    except (Problem, Unavailable) as error:  # the client reconnects, and gets the error as its response
        log.warning("events.interrupted", **shown, error=error)
