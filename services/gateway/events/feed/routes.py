"""HTTP route of a tenant's feed: a list, a long poll, or a stream of server-sent events."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency, Provide
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import Parameter, SkipValidation

from common import ids
from common.event_types import EVENT_TYPES
from services.gateway.auth.authentication import Authenticator
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.events.event_types import list_all_patterns, read_types
from services.gateway.events.feed.feed import EventFeed, FeedPage, format_position
from services.gateway.events.feed.schemas import FeedItem, FeedPageView
from services.gateway.events.feed.store import START, FeedPosition
from services.gateway.events.history import Event, EventView
from services.gateway.events.routes import LAST_EVENT_ID, make_stream, wants_stream
from services.gateway.http.disconnects import while_connected
from services.gateway.http.limits.response_limits import find_response_lease
from services.gateway.http.negotiation import MAX_WAIT
from services.gateway.http.parameters import Limit
from services.gateway.http.problems import WITH_ID, FieldError, Problem, document, invalid

Caller = Request[Key, Any, Any]
LATEST = "latest"
MAX_XID = 2**63
ONE_PATTERN = "|".join(each.replace(".", r"\.").replace("*", r"\*") for each in list_all_patterns(EVENT_TYPES))


@dataclass(frozen=True)
class FeedServices:
    authenticator: Authenticator
    feed: EventFeed


Services = NamedDependency[SkipValidation[FeedServices]]


@get(
    "/events",
    summary="List, await or stream all your events",
    operation_id="list_feed",
    **needs(Scope.READ),
    responses={
        200: ResponseSpec(FeedPageView, description="A page, or the stream", generate_examples=False),
        **document(*WITH_ID),
    },
)
async def list_feed(
    request: Caller,
    services: Services,
    after: Annotated[
        str | None,
        Parameter(
            description="The id of an event, or a `next_after`: only later events. `latest`: only new ones.",
        ),
    ] = None,
    types: Annotated[
        str | None,
        Parameter(
            max_length=1000,
            schema_extra={"pattern": f"^({ONE_PATTERN})(,({ONE_PATTERN}))*$"},  # read_types checks it
            description="Only events of these types or patterns such as `job.*`, separated by commas.",
        ),
    ] = None,
    limit: Limit = 100,
    wait: Annotated[
        float, Parameter(ge=0, le=MAX_WAIT, description="How many seconds to wait for an event if there is none.")
    ] = 0,
    last_event_id: Annotated[
        str | None,
        Parameter(
            header=LAST_EVENT_ID,
            description="The id of the last event of a stream. The next one starts after it, whatever `after` says.",
        ),
    ] = None,
) -> Response[Any]:
    """Return all your events in order, oldest first, each at least once. Without `after`, begin with the oldest one.

    With `wait`, return as soon as there is an event. `Accept: text/event-stream` selects a stream, unless it prefers
    JSON. A key that is limited to models gets the events of its models, and those of no model.
    """
    feed, key = services.feed, request.user
    wanted = read_types(types)
    position = await read_position(feed, key, after, last_event_id)
    if wants_stream(request):
        feed.waiters.check_capacity(key.tenant_id)  # now, while the response may still be an error
        lease = find_response_lease(request.scope)
        events = feed.follow(key, lease, wanted, position)
        return make_stream(services.authenticator, request, events, tenant=ids.encode(ids.Kind.TENANT, key.tenant_id))
    page = await read_page(request, services, wanted, position, limit, wait)
    next_after = None if page.after == START else format_position(page.after)
    return Response(FeedPageView([view(event) for event in page.events], next_after, page.has_more))


async def read_page(
    request: Caller, services: FeedServices, types: tuple[str, ...], after: FeedPosition, limit: int, wait: float
) -> FeedPage:
    feed, key, lease = services.feed, request.user, find_response_lease(request.scope)
    page = await feed.read(key, lease, types, after, limit)
    if wait and not page.events and not page.has_more:
        await while_connected(request.receive, feed.wait(key, types, page.after, wait))
        await services.authenticator.recheck(request)
        page = await feed.read(key, lease, types, page.after, limit)
    return page


async def read_position(feed: EventFeed, key: Key, after: str | None, last_event_id: str | None) -> FeedPosition:
    """Return where to begin. Raises Problem: 422 for no id of an event, 404 for an event that is not kept."""
    text = last_event_id or after
    if not text:
        return START
    if text == LATEST and not last_event_id:
        return await feed.store.find_end(key.tenant_id)
    shown, _, number = text.partition(".")
    event_id = ids.parse(ids.Kind.EVENT, shown)
    xid = int(number) if number.isascii() and number.isdigit() and len(number) <= 19 else None
    if event_id is None or (xid is None and shown != text):
        name = LAST_EVENT_ID if last_event_id else "after"
        raise invalid(FieldError(name, "is not the id of an event; use an id or a `next_after` that this API returned"))
    found = None
    if xid is None or xid < MAX_XID:
        found = await feed.store.find_position(event_id, key.tenant_id, xid)
    if found is None:
        detail = "event not found; it is no longer kept, or belongs to another tenant; begin with the oldest event"
        raise Problem(HTTPStatus.NOT_FOUND, "not_found", detail)
    return found


def view(event: Event) -> FeedItem:
    body = msgspec.json.decode(event.body, type=EventView)
    return FeedItem(event.id.partition(".")[0], body.type, body.timestamp, body.data, body.sequence)


def make_router(services: FeedServices) -> Router:
    return Router(
        "/",
        route_handlers=[list_feed],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        tags=["Events"],
    )
