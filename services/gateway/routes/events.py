"""What happens to a job, as it happens: server-sent events, a WebSocket, or a list."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, TypeAlias
from uuid import UUID

import msgspec
from litestar import Request, Response, Router, WebSocket, get, websocket
from litestar.exceptions import WebSocketDisconnect
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIType, Operation, Schema
from litestar.params import Parameter
from litestar.response import Stream

from common import ids, tracing
from common.errors import Unavailable
from common.jobs import TERMINAL
from common.logs import Log
from services.gateway.auth import Connection, check_again, let_in
from services.gateway.errors import (
    FINDING,
    MEDIA_TYPE,
    FieldError,
    Problem,
    answer_problem,
    answer_unavailable,
    document,
    invalid,
    not_found,
)
from services.gateway.media import prefers
from services.gateway.openapi import offer_too
from services.gateway.presence import while_present
from services.gateway.routes.parameters import refuse_twice, refuse_unknown
from services.gateway.routes.references import parse_id
from services.gateway.schemas import EventItem, EventPage
from services.gateway.scopes import OPTION, Scope, needs
from services.gateway.store import Key
from services.gateway.story import Event, EventView, Story, are_large, read_place
from services.gateway.watch_store import START, Place, Stamp

EVENT_STREAM = "text/event-stream"
RETRY_MS = 1000  # before a client comes again whose stream was cut
LAST_EVENT_ID = "Last-Event-ID"
TRY_AGAIN_LATER, POLICY_VIOLATION = 1013, 1008
KEY_SECONDS = 1.0  # after which the key of whoever listens is looked at again

Events: TypeAlias = AsyncGenerator[Event | None, None]

log = Log("events")


@dataclass
class Telling(Operation):
    """A list, or a stream."""

    def __post_init__(self) -> None:
        offer_too(self, EVENT_STREAM, Schema(type=OpenAPIType.STRING))


@get(
    "/{job_id:str}/events",
    summary="What happened to a job, and what happens",
    operation_id="list_events",
    **needs(Scope.READ),
    operation_class=Telling,
    responses={
        200: ResponseSpec(EventPage, description="A page, or the stream", generate_examples=False),
        204: ResponseSpec(None, description="The job has ended, and nothing is behind `Last-Event-ID`"),
        **document(*FINDING),
    },
)
async def list_events(
    request: Request[Key, Any, Any],
    job_id: str,
    story: Story,
    limit: Annotated[int, Parameter(ge=1, le=1000)] = 100,
    cursor: str | None = None,
    last_event_id: Annotated[str | None, Parameter(header=LAST_EVENT_ID, description="go on behind this event")] = None,
) -> Response[Any]:
    """A stream to the job's end where `Accept` likes `text/event-stream` as well as JSON; else a list, oldest first."""
    parsed = await find(story, job_id, request.user.tenant_id)
    if not prefers(",".join(request.headers.getall("accept", [])), EVENT_STREAM):
        return Response(await page(story, parsed, read_id("cursor", cursor), limit))
    if cursor is not None:
        raise invalid(FieldError("cursor", f"is for the list; a stream goes on behind {LAST_EVENT_ID}"))
    after = read_id(LAST_EVENT_ID, last_event_id)
    stamp = await check_id(story, parsed, LAST_EVENT_ID, after)
    if after != START and stamp is not None and stamp.status in TERMINAL and not await story.read(parsed, after, 1):
        return Response(None, status_code=HTTPStatus.NO_CONTENT)  # tells a browser not to come again
    story.watch.check_room(request.user.tenant_id)  # while the answer may still be a refusal
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    told = while_valid(request, story.follow(parsed, request.user, after))
    return Stream(send_events(job_id, told), media_type=EVENT_STREAM, headers=headers)


async def find(story: Story, job_id: str, tenant_id: UUID) -> UUID:
    parsed = parse_id(ids.Kind.JOB, job_id)
    traceparent = await story.store.find_owned(parsed, tenant_id)
    if traceparent is None:
        raise not_found("job")
    tracing.link(traceparent)
    return parsed


def read_id(name: str, text: str | None) -> Place:
    place = read_place(text) if text else START
    if place is None:
        raise invalid(FieldError(name, "is not the id of an event"))
    return place


async def check_id(story: Story, job_id: UUID, name: str, after: Place) -> Stamp | None:
    """The job's state; raises Problem (422) for an event that it has not had: all to come would be passed over."""
    stamp = await story.watch.looks.submit(job_id)
    if stamp is not None and after.claim > stamp.claim:
        raise invalid(FieldError(name, "is not the id of an event of this job"))
    return stamp


async def page(story: Story, job_id: UUID, after: Place, limit: int) -> EventPage:
    events = await story.read(job_id, after, limit + 1)
    shown = events[:limit]
    return EventPage(
        [show(event) for event in shown], shown[-1].id if len(events) > limit or are_large(shown) else None
    )


def show(event: Event) -> EventItem:
    view = msgspec.json.decode(event.body, type=EventView)
    return EventItem(event.id, view.type, view.timestamp, view.data)


async def while_valid(connection: Connection, following: Events) -> Events:
    """The events, until the caller's key is revoked; then raises Problem (401), and nothing more is told."""
    clock = asyncio.get_running_loop().time
    until = clock() + KEY_SECONDS
    async with aclosing(following) as events:
        async for event in events:
            if event is not None and clock() >= until:
                await check_again(connection)
                until = clock() + KEY_SECONDS
            yield event


async def send_events(job_id: str, told: Events) -> AsyncIterator[bytes]:
    """The lines of the stream; a comment where nothing happens, so that a client that is gone is found."""
    yield b"retry: %d\n\n" % RETRY_MS
    try:
        async with aclosing(told) as events:
            async for event in events:
                if event is None:
                    yield b":\n\n"
                else:
                    yield b"id: %b\nevent: %b\ndata: %b\n\n" % (event.id.encode(), event.type.encode(), event.body)
    except (Problem, Unavailable) as error:  # the client comes again, and hears of it then
        log.warning("events.cut", job_id=job_id, error=error)


@websocket("/v1/jobs/{job_id:str}/events", opt={OPTION: Scope.READ})
async def watch_events(
    socket: WebSocket[Any, Any, Any], job_id: str, story: Story, last_event_id: str | None = None
) -> None:
    """The same over a WebSocket: a text message for each event; closed by us, with 1000, after the job's end."""
    try:
        key = await let_in(socket)
        refuse_unknown(socket, socket.route_handler)
        refuse_twice(socket)
        parsed = await find(story, job_id, key.tenant_id)
        name, last = choose_id(last_event_id, socket.headers.get(LAST_EVENT_ID))
        after = read_id(name, last)
        await check_id(story, parsed, name, after)
        story.watch.check_room(key.tenant_id)
    except (Problem, Unavailable) as error:
        await refuse(socket, error)
        return
    await socket.accept()
    told = while_valid(socket, story.follow(parsed, key, after))
    await while_present(socket.receive, send_messages(socket, job_id, told))


def choose_id(query: str | None, header: str | None) -> tuple[str, str | None]:
    """Browsers can't give a WebSocket a header. Raises Problem (422) where both are given and differ."""
    if query and header and query != header:
        raise invalid(FieldError("last_event_id", f"differs from the header {LAST_EVENT_ID}"))
    return (LAST_EVENT_ID, header) if header else ("last_event_id", query)


async def refuse(socket: WebSocket[Any, Any, Any], error: Problem | Unavailable) -> None:
    """As an HTTP request is refused (the ASGI extension Websocket Denial Response)."""
    answer = answer_problem(socket, error) if isinstance(error, Problem) else answer_unavailable(socket, error)
    headers = {"content-type": MEDIA_TYPE, **answer.headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    start: Any = {"type": "websocket.http.response.start", "status": answer.status_code, "headers": raw}
    body: Any = {"type": "websocket.http.response.body", "body": msgspec.json.encode(answer.content)}
    await socket.send(start)
    await socket.send(body)


async def send_messages(socket: WebSocket[Any, Any, Any], job_id: str, told: Events) -> None:
    with contextlib.suppress(WebSocketDisconnect):
        try:
            async with aclosing(told) as events:
                async for event in events:
                    if event is not None:
                        await socket.send_text(msgspec.json.encode(show(event)).decode())
        except (Problem, Unavailable) as error:
            log.warning("events.cut", job_id=job_id, error=error)
            refused = isinstance(error, Problem) and error.status is HTTPStatus.UNAUTHORIZED
            await socket.close(POLICY_VIOLATION if refused else TRY_AGAIN_LATER)
        else:
            await socket.close()


router = Router("/jobs", route_handlers=[list_events], tags=["Jobs"])
socket_router = Router("/", route_handlers=[watch_events])
