"""HTTP routes of deliveries and their attempts."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

from litestar import Request, get, post
from litestar.params import Parameter

from common import ids
from common.event_types import DELIVERED_TYPES
from common.telemetry import tracing
from common.telemetry.logs import Log
from common.views.delivery import DeliveryStatus, DeliveryView
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.events.event_types import document_patterns, read_patterns
from services.gateway.http.parameters import (
    CreatedAfter,
    CreatedBefore,
    CursorParameter,
    parse_cursor,
    parse_id,
    read_span,
)
from services.gateway.http.problems import WITH_ID, conflict, document, not_found
from services.gateway.http.telemetry import identify_caller
from services.gateway.webhooks.deliveries.store import DeliveryFilter, DeliveryStore, LockedDelivery
from services.gateway.webhooks.dependencies import Services
from services.gateway.webhooks.schemas import DeliveryPage, SentBody

log = Log("delivery")

Caller = Request[Key, Any, Any]
Limit = Annotated[int, Parameter(ge=1, le=100, description="How many items the page may have.")]
EventTypeFilter = Annotated[
    str | None,
    Parameter(
        schema_extra=document_patterns(DELIVERED_TYPES),  # read_patterns checks it
        description="Only deliveries of this type of event, or of types that match a pattern such as `job.*`.",
    ),
]
StatusFilter = Annotated[DeliveryStatus | None, Parameter(description="Only deliveries in this state.")]


@get(
    "/webhooks/{webhook_id:str}/deliveries",
    summary="List the deliveries of a subscription",
    operation_id="list_webhook_deliveries",
    **needs(Scope.READ),
    responses=document(*WITH_ID),
)
async def list_webhook_deliveries(
    request: Caller,
    webhook_id: str,
    services: Services,
    status: StatusFilter = None,
    event_type: EventTypeFilter = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 50,
    cursor: CursorParameter = None,
) -> DeliveryPage:
    """Return sent and pending deliveries, newest first.

    Pass `next_cursor` as `cursor` to get the next page. The list cuts each response to 512 bytes.
    """
    parsed, tenant_id = parse_id(ids.Kind.WEBHOOK, webhook_id), request.user.tenant_id
    if await services.webhooks.find(parsed, tenant_id) is None:
        raise not_found("webhook")
    event_types = None if event_type is None else read_patterns("event_type", [event_type])
    filters = DeliveryFilter(status=status, event_types=event_types, **read_span(created_after, created_before))
    before = parse_cursor(ids.Kind.DELIVERY, cursor)
    return view_page(await services.deliveries.list_by_webhook(tenant_id, parsed, before, filters, limit + 1), limit)


@get(
    "/jobs/{job_id:str}/deliveries",
    summary="List the deliveries of a job",
    operation_id="list_job_deliveries",
    **needs(Scope.READ),
    responses=document(*WITH_ID),
)
async def list_job_deliveries(
    request: Caller,
    job_id: str,
    services: Services,
    status: StatusFilter = None,
    limit: Limit = 50,
    cursor: CursorParameter = None,
) -> DeliveryPage:
    """Return sent and pending deliveries, newest first.

    Pass `next_cursor` as `cursor` to get the next page. The list cuts each response to 512 bytes.
    """
    parsed, tenant_id = parse_id(ids.Kind.JOB, job_id), request.user.tenant_id
    if not await services.jobs.has_job(parsed, tenant_id):
        raise not_found("job")
    before = parse_cursor(ids.Kind.DELIVERY, cursor)
    return view_page(await services.deliveries.list_by_job(tenant_id, parsed, before, status, limit + 1), limit)


@get(
    "/deliveries/{delivery_id:str}",
    summary="Get a delivery",
    operation_id="get_delivery",
    **needs(Scope.READ),
    responses=document(*WITH_ID),
)
async def get_delivery(request: Caller, delivery_id: str, services: Services) -> DeliveryView:
    """Return the delivery with every attempt, and up to 16 KiB of each response."""
    return await find_delivery(services.deliveries, delivery_id, request.user.tenant_id)


@get(
    "/deliveries/{delivery_id:str}/body",
    summary="Get what a delivery sends",
    operation_id="get_delivery_body",
    **needs(Scope.READ),
    responses=document(*WITH_ID),
)
async def get_delivery_body(request: Caller, delivery_id: str, services: Services) -> SentBody:
    """Return the body that every attempt sends. Only its timestamp and signature differ between attempts."""
    body = await services.deliveries.find_body(parse_id(ids.Kind.DELIVERY, delivery_id), request.user.tenant_id)
    if body is None:
        raise not_found("delivery")
    return SentBody(delivery_id=delivery_id, body=body.decode())


@post(
    "/deliveries/{delivery_id:str}/redeliver",
    status_code=HTTPStatus.ACCEPTED,
    summary="Send a delivery again now",
    operation_id="redeliver",
    **needs(Scope.ADMIN),
    responses=document(*WITH_ID, HTTPStatus.CONFLICT),
)
async def redeliver(request: Caller, delivery_id: str, services: Services) -> DeliveryView:
    """Send the delivery again under the same `webhook-id`. If that fails, the retry schedule starts again.

    An attempt that runs now counts as this one. If it fails, its schedule goes on.
    """
    parsed, tenant_id = parse_id(ids.Kind.DELIVERY, delivery_id), request.user.tenant_id
    async with services.database.transaction() as connection:
        locked = await services.deliveries.lock(connection, parsed, tenant_id)
        if locked is None:
            raise not_found("delivery")
        if locked.disabled:
            raise conflict("the webhook is disabled; enable it, then redeliver")
        await services.deliveries.redeliver(connection, parsed)
    tracing.add_link(locked.traceparent)
    log.info("delivery.redelivered", delivery_id=delivery_id, **identify_caller(request) | identify_delivery(locked))
    return await find_delivery(services.deliveries, delivery_id, tenant_id)


def identify_delivery(locked: LockedDelivery) -> dict[str, str]:
    """Return the fields of its log line. The trace is the job's, not the request's."""
    job = {} if locked.job_id is None else {"job_id": ids.encode(ids.Kind.JOB, locked.job_id)}
    return job | {"trace_id": tracing.trace_id(locked.traceparent)}


async def find_delivery(deliveries: DeliveryStore, delivery_id: str, tenant_id: UUID) -> DeliveryView:
    found = await deliveries.find(parse_id(ids.Kind.DELIVERY, delivery_id), tenant_id)
    if found is None:
        raise not_found("delivery")
    return found


def view_page(found: Sequence[DeliveryView], limit: int) -> DeliveryPage:
    items = list(found[:limit])
    return DeliveryPage(items, items[-1].id if len(found) > limit else None)
