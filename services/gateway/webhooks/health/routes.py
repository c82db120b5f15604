"""HTTP routes of the health of subscriptions."""

from typing import Any

from litestar import Request, get

from common import ids
from common.views.job import format_optional_time
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.parameters import CursorParameter, parse_cursor, parse_id
from services.gateway.http.problems import ANY_CALL, WITH_ID, document, not_found
from services.gateway.webhooks.deliveries.routes import Limit
from services.gateway.webhooks.dependencies import Services
from services.gateway.webhooks.health.store import Health, Sample, Window
from services.gateway.webhooks.schemas import AttemptDuration, DeliveryWindow, WebhookHealth, WebhookHealthPage

SINGLE = Sample(deliveries=1_000, attempts=10)
LISTED = Sample(deliveries=50, attempts=3)  # of each: a page has up to 100 subscriptions

Caller = Request[Key, Any, Any]


@get(
    "/webhooks/health",
    summary="List the health of your subscriptions",
    operation_id="list_webhook_health",
    **needs(Scope.READ),
    responses=document(*ANY_CALL),
)
async def list_webhook_health(
    request: Caller, services: Services, limit: Limit = 50, cursor: CursorParameter = None
) -> WebhookHealthPage:
    """Return how deliveries went, in the order of the subscriptions.

    It counts the newest 50 deliveries of each, with their latest 4 attempts. Pass `next_cursor` as
    `cursor` to get the next page.
    """
    rows = await services.webhooks.list(request.user.tenant_id, parse_cursor(ids.Kind.WEBHOOK, cursor), limit + 1)
    shown = [row.id for row in rows[:limit]]
    healths = await services.health.measure(shown, LISTED) if shown else {}
    items = [view_health(healths[webhook_id]) for webhook_id in shown if webhook_id in healths]
    return WebhookHealthPage(items, ids.encode(ids.Kind.WEBHOOK, shown[-1]) if len(rows) > limit else None)


@get(
    "/webhooks/{webhook_id:str}/health",
    summary="Get the health of a subscription",
    operation_id="get_webhook_health",
    **needs(Scope.READ),
    responses=document(*WITH_ID),
)
async def get_webhook_health(request: Caller, webhook_id: str, services: Services) -> WebhookHealth:
    """Return what is pending, the circuit, and how the newest 1,000 deliveries went, with their latest 11 attempts."""
    parsed = parse_id(ids.Kind.WEBHOOK, webhook_id)
    if await services.webhooks.find(parsed, request.user.tenant_id) is None:
        raise not_found("webhook")
    healths = await services.health.measure([parsed], SINGLE)
    if parsed not in healths:  # it was deleted just now
        raise not_found("webhook")
    return view_health(healths[parsed])


def view_health(health: Health) -> WebhookHealth:
    return WebhookHealth(
        webhook_id=ids.encode(ids.Kind.WEBHOOK, health.webhook_id),
        circuit="open" if health.open else "closed",
        failing_since=format_optional_time(health.failing_since),
        pending=health.pending,
        oldest_due_at=format_optional_time(health.oldest_due_at),
        counted_since=format_optional_time(health.counted_since),
        last_60_minutes=view_window(health.hour),
        last_24_hours=view_window(health.day),
    )


def view_window(window: Window) -> DeliveryWindow:
    succeeded = window.attempts - window.failed_attempts
    return DeliveryWindow(
        succeeded=window.succeeded,
        failed=window.failed,
        failed_attempts=window.failed_attempts,
        success_rate=round(succeeded / window.attempts, 4) if window.attempts else None,
        duration_ms=AttemptDuration(*map(round, window.durations)) if window.durations else AttemptDuration(None, None),
    )
