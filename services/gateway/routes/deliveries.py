"""Deliveries and the attempts at them."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

from litestar import Request, Router, get, post
from litestar.params import Parameter

from common import ids, tracing
from common.database import Database
from common.delivery_view import DeliveryStatus, DeliveryView
from common.logs import Log
from services.gateway.callers import identify_caller
from services.gateway.delivery_store import DeliveryFilter, DeliveryStore, LockedDelivery
from services.gateway.errors import FINDING, conflict, document, not_found
from services.gateway.routes.parameters import NameFilter, TimeFilter, read_span
from services.gateway.routes.references import parse_cursor, parse_id
from services.gateway.scopes import Scope, needs
from services.gateway.store import Key, Store
from services.gateway.webhook_schemas import DeliveryPage
from services.gateway.webhook_store import WebhookStore

log = Log("delivery")

Caller = Request[Key, Any, Any]
Limit = Annotated[int, Parameter(ge=1, le=100)]


@get(
    "/webhooks/{webhook_id:str}/deliveries",
    summary="What was sent to a subscription, and what will be",
    operation_id="list_webhook_deliveries",
    **needs(Scope.READ),
    responses=document(*FINDING),
)
async def list_webhook_deliveries(
    request: Caller,
    webhook_id: str,
    webhooks: WebhookStore,
    deliveries: DeliveryStore,
    status: DeliveryStatus | None = None,
    event_type: NameFilter = None,
    created_after: TimeFilter = None,
    created_before: TimeFilter = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> DeliveryPage:
    """Newest first; pass `next_cursor` as `cursor` for the next page. Responses are cut to 512 bytes here."""
    parsed, tenant_id = parse_id(ids.Kind.WEBHOOK, webhook_id), request.user.tenant_id
    if await webhooks.find(parsed, tenant_id) is None:
        raise not_found("webhook")
    wanted = DeliveryFilter(status=status, event_type=event_type, **read_span(created_after, created_before))
    before = parse_cursor(ids.Kind.DELIVERY, cursor)
    return page(await deliveries.list_by_webhook(tenant_id, parsed, before, wanted, limit + 1), limit)


@get(
    "/jobs/{job_id:str}/deliveries",
    summary="The webhooks sent for a job, and those that will be",
    operation_id="list_job_deliveries",
    **needs(Scope.READ),
    responses=document(*FINDING),
)
async def list_job_deliveries(
    request: Caller,
    job_id: str,
    store: Store,
    deliveries: DeliveryStore,
    status: DeliveryStatus | None = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> DeliveryPage:
    """Newest first; pass `next_cursor` as `cursor` for the next page. Responses are cut to 512 bytes here."""
    parsed, tenant_id = parse_id(ids.Kind.JOB, job_id), request.user.tenant_id
    if await store.find_job(parsed, tenant_id) is None:
        raise not_found("job")
    before = parse_cursor(ids.Kind.DELIVERY, cursor)
    return page(await deliveries.list_by_job(tenant_id, parsed, before, status, limit + 1), limit)


@get(
    "/deliveries/{delivery_id:str}",
    summary="A delivery",
    operation_id="get_delivery",
    **needs(Scope.READ),
    responses=document(*FINDING),
)
async def get_delivery(request: Caller, delivery_id: str, deliveries: DeliveryStore) -> DeliveryView:
    """With every attempt, and up to 16 KiB of each response."""
    return await find(deliveries, delivery_id, request.user.tenant_id)


@post(
    "/deliveries/{delivery_id:str}/redeliver",
    status_code=HTTPStatus.ACCEPTED,
    summary="Send once more, now",
    operation_id="redeliver",
    **needs(Scope.ADMIN),
    responses=document(*FINDING, HTTPStatus.CONFLICT),
)
async def redeliver(request: Caller, delivery_id: str, deliveries: DeliveryStore, database: Database) -> DeliveryView:
    """Under the same `webhook-id`; should that fail, by the schedule again."""
    parsed, tenant_id = parse_id(ids.Kind.DELIVERY, delivery_id), request.user.tenant_id
    async with database.transaction() as connection:
        locked = await deliveries.lock(connection, parsed, tenant_id)
        if locked is None:
            raise not_found("delivery")
        if locked.disabled:
            raise conflict("the webhook is disabled; enable it first")
        await deliveries.redeliver(connection, parsed)
    tracing.link(locked.traceparent)
    log.info("delivery.again", delivery_id=delivery_id, **identify_caller(request) | identify(locked))
    return await find(deliveries, delivery_id, tenant_id)


def identify(locked: LockedDelivery) -> dict[str, str]:
    """What its log line says of it: its trace is the job's, not the request's."""
    job = {} if locked.job_id is None else {"job_id": ids.show(ids.Kind.JOB, locked.job_id)}
    return job | {"trace_id": tracing.trace_id(locked.traceparent)}


async def find(deliveries: DeliveryStore, delivery_id: str, tenant_id: UUID) -> DeliveryView:
    found = await deliveries.find(parse_id(ids.Kind.DELIVERY, delivery_id), tenant_id)
    if found is None:
        raise not_found("delivery")
    return found


def page(found: Sequence[DeliveryView], limit: int) -> DeliveryPage:
    items = list(found[:limit])
    return DeliveryPage(items, items[-1].id if len(found) > limit else None)


router = Router(
    "/", route_handlers=[list_webhook_deliveries, list_job_deliveries, get_delivery, redeliver], tags=["Deliveries"]
)
