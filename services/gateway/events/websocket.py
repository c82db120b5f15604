"""WebSocket of a job's events."""

import contextlib
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import WebSocket, websocket
from litestar.exceptions import WebSocketDisconnect

from common.errors import Unavailable
from common.job_states import TERMINAL
from common.telemetry.logs import Log
from services.gateway.auth.scopes import OPTION, OWN_AUTHENTICATION, Scope
from services.gateway.events.dependencies import Services
from services.gateway.events.routes import (
    LAST_EVENT_ID,
    Events,
    check_position,
    find_job,
    parse_position,
    until_revoked,
    view_event,
)
from services.gateway.http.disconnects import while_connected
from services.gateway.http.limits.response_limits import find_response_lease
from services.gateway.http.parameters import check_parameters
from services.gateway.http.problems import FieldError, Problem, invalid
from services.gateway.http.websockets import refuse_socket

JOB_ENDED, TRY_AGAIN_LATER, POLICY_VIOLATION = 1000, 1013, 1008

log = Log("events")


@websocket("/{job_id:str}/events", opt={OPTION: Scope.READ, OWN_AUTHENTICATION: True})
async def stream_events(
    socket: WebSocket[Any, Any, Any], job_id: str, services: Services, last_event_id: str | None = None
) -> None:
    """Send a text message for each event. Close with 1000 only after the job's end."""
    history = services.history
    try:
        key = await services.authenticator.authenticate(socket, check_parameters)
        parsed = await find_job(history, job_id, key.tenant_id)
        name, text = choose_id(last_event_id, socket.headers.get(LAST_EVENT_ID))
        after = parse_position(name, text)
        snapshot = await check_position(history, parsed, name, after)
        history.waiters.check_capacity(key.tenant_id)
    except (Problem, Unavailable) as error:
        await refuse_socket(socket, error)
        return
    await socket.accept()
    events = until_revoked(
        services.authenticator, socket, history.follow(parsed, key, find_response_lease(socket.scope), after)
    )
    is_over = snapshot is not None and snapshot.status in TERMINAL
    await while_connected(socket.receive, send_messages(socket, job_id, events, is_over))


def choose_id(query: str | None, header: str | None) -> tuple[str, str | None]:
    """Return the name and value of the given id. Browsers cannot set headers of a WebSocket, so the query has one too.

    Raises Problem (422) if both are given and differ.
    """
    if query and header and query != header:
        raise invalid(FieldError("last_event_id", f"differs from the header {LAST_EVENT_ID}; send only one of them"))
    return (LAST_EVENT_ID, header) if header else ("last_event_id", query)


async def send_messages(socket: WebSocket[Any, Any, Any], job_id: str, following: Events, is_over: bool) -> None:
    """Send every event, then close the socket. The close code tells why.

    `is_over` says that the job has ended, for a client that has seen all events.
    """
    with contextlib.suppress(WebSocketDisconnect):
        try:
            async with aclosing(following) as events:
                async for event in events:
                    if event is not None:
                        await socket.send_text(msgspec.json.encode(view_event(event)).decode())
                        is_over = event.is_end
                    del event  # it may be large
        except (Problem, Unavailable) as error:
            log.warning("events.interrupted", job_id=job_id, error=error)
            revoked = isinstance(error, Problem) and error.status is HTTPStatus.UNAUTHORIZED
            await socket.close(POLICY_VIOLATION if revoked else TRY_AGAIN_LATER)
        else:  # after an hour, or because the gateway stops, it ends before the job
            await socket.close(JOB_ENDED if is_over else TRY_AGAIN_LATER)
