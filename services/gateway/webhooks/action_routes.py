"""HTTP routes that test, disable, enable and recover subscriptions."""

import asyncio
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from uuid import UUID

import msgspec
from litestar import Request, Response, get, post
from opentelemetry.trace import get_current_span

from common import ids
from common.postgres.audit_log import add_entries
from common.telemetry import tracing
from common.telemetry.logs import Log
from common.views.delivery import AttemptRow, view_attempt
from common.views.job import format_time
from common.views.subscription import TestBody, TestData
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.parameters import parse_id
from services.gateway.http.problems import (
    WITH_BODY,
    WITH_ID,
    FieldError,
    Problem,
    conflict,
    document,
    invalid,
    not_found,
)
from services.gateway.http.telemetry import identify_caller
from services.gateway.http.validation.timestamps import bound, bound_optional
from services.gateway.webhooks.audit_entries import make_entry
from services.gateway.webhooks.deliveries.store import FULL_RESPONSE_BYTES, DeliveryStore
from services.gateway.webhooks.dependencies import Services
from services.gateway.webhooks.routes import lock_webhook, view_webhook
from services.gateway.webhooks.schemas import (
    Recover,
    RecoveryView,
    TestView,
    WebhookView,
)
from services.gateway.webhooks.store import NewTest, RecoveryRow

NOTIFIER_SECONDS = 15.0  # beyond an attempt's deadline: until a notifier starts it
POLL_SECONDS = 0.1

log = Log("webhook")

Caller = Request[Key, Any, Any]
ACTING = (*WITH_BODY, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


@post(
    "/webhooks/{webhook_id:str}/test",
    status_code=HTTPStatus.OK,
    summary="Send a webhook.test event now",
    operation_id="test_webhook",
    **needs(Scope.ADMIN),
    responses=document(*WITH_ID),
)
async def test_webhook(request: Caller, webhook_id: str, services: Services) -> TestView:
    """Send a test event, wait for the attempt, and return it. A failed test is not retried."""
    tenant_id = request.user.tenant_id
    async with services.database.transaction() as connection:
        row = await lock_webhook(services.webhooks, connection, webhook_id, tenant_id)
        body = TestBody("webhook.test", format_time(datetime.now(UTC)), TestData(webhook_id, row.description))
        test = NewTest(ids.new(), msgspec.json.encode(body), tracing.to_traceparent(get_current_span()))
        delivery_id = await services.webhooks.add_test(connection, row.id, tenant_id, test)
    seconds = services.attempt_seconds + NOTIFIER_SECONDS
    attempt = view_attempt(await wait_for_attempt(services.deliveries, delivery_id, seconds))
    error = attempt.error.code if attempt.error else None
    log.info("webhook.tested", webhook_id=webhook_id, error=error, **identify_caller(request))
    return TestView(delivery_id=ids.encode(ids.Kind.DELIVERY, delivery_id), **msgspec.structs.asdict(attempt))


async def wait_for_attempt(deliveries: DeliveryStore, delivery_id: UUID, seconds: float) -> AttemptRow:
    """Return the delivery's first attempt. Raises Problem (503) if none is made in time."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                if found := await deliveries.list_attempts([delivery_id], FULL_RESPONSE_BYTES):
                    return found[0]
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        text = f"no attempt was made within {seconds:g} s; check that a notifier is running"
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers={"Retry-After": "30"}) from None


@post(
    "/webhooks/{webhook_id:str}/disable",
    status_code=HTTPStatus.OK,
    summary="Disable a subscription",
    operation_id="disable_webhook",
    **needs(Scope.ADMIN),
    responses=document(*WITH_ID),
)
async def disable_webhook(request: Caller, webhook_id: str, services: Services) -> WebhookView:
    """Send nothing more to the subscription until it is enabled. Its pending deliveries are canceled."""
    async with services.database.transaction() as connection:
        row = await lock_webhook(services.webhooks, connection, webhook_id, request.user.tenant_id)
        if at := await services.webhooks.disable(connection, row.id):
            row = msgspec.structs.replace(row, disabled_at=at, disabled_reason="manual")
            await add_entries(connection, [make_entry(request.user, "webhook.disabled", row.id, {"reason": "manual"})])
    return view_webhook(row, services.encryptor, request.user)


@post(
    "/webhooks/{webhook_id:str}/enable",
    status_code=HTTPStatus.OK,
    summary="Enable a disabled subscription",
    operation_id="enable_webhook",
    **needs(Scope.ADMIN),
    responses=document(*WITH_ID),
)
async def enable_webhook(request: Caller, webhook_id: str, services: Services) -> WebhookView:
    """Send new events to the subscription again.

    A recovery sends what was canceled when it was disabled. Events created while it was disabled are lost.
    """
    async with services.database.transaction() as connection:
        row = await lock_webhook(services.webhooks, connection, webhook_id, request.user.tenant_id)
        await services.webhooks.enable(connection, row.id)
        if row.disabled_at is not None:
            await add_entries(connection, [make_entry(request.user, "webhook.enabled", row.id)])
    return view_webhook(
        msgspec.structs.replace(row, disabled_at=None, disabled_reason=None), services.encryptor, request.user
    )


@post(
    "/webhooks/{webhook_id:str}/recoveries",
    status_code=HTTPStatus.ACCEPTED,
    summary="Recover failed deliveries of a period",
    operation_id="create_recovery",
    **needs(Scope.ADMIN),
    responses=document(*ACTING),
)
async def create_recovery(
    request: Caller, webhook_id: str, data: Recover, services: Services
) -> Response[RecoveryView]:
    """Send each failed delivery of a period again, once, oldest first.

    The recovery is throttled in favor of new events, and survives restarts.
    """
    since, until = bound(data.since), bound_optional(data.until)
    if until is not None and until <= since:
        raise invalid(FieldError("/until", "is not after since; give a later time, or leave it out for now"))
    async with services.database.transaction() as connection:
        row = await lock_webhook(services.webhooks, connection, webhook_id, request.user.tenant_id)
        if row.disabled_at is not None:
            raise conflict("the webhook is disabled; enable it, then recover")
        added = await services.webhooks.add_recovery(connection, ids.new(), row.id, since, until)
    log.info("webhook.recovery_started", webhook_id=webhook_id, **identify_caller(request))
    view = view_recovery(added)
    return Response(view, headers={"Location": f"/v1/webhooks/{webhook_id}/recoveries/{view.id}"})


@get(
    "/webhooks/{webhook_id:str}/recoveries/{recovery_id:str}",
    summary="Get the progress of a recovery",
    operation_id="get_recovery",
    **needs(Scope.READ),
    responses=document(*WITH_ID),
)
async def get_recovery(request: Caller, webhook_id: str, recovery_id: str, services: Services) -> RecoveryView:
    """Return how far the recovery is."""
    parsed = parse_id(ids.Kind.RECOVERY, recovery_id)
    found = await services.webhooks.find_recovery(
        parsed, parse_id(ids.Kind.WEBHOOK, webhook_id), request.user.tenant_id
    )
    if found is None:
        raise not_found("recovery")
    return view_recovery(found)


def view_recovery(row: RecoveryRow) -> RecoveryView:
    return RecoveryView(
        id=ids.encode(ids.Kind.RECOVERY, row.id),
        webhook_id=ids.encode(ids.Kind.WEBHOOK, row.webhook_id),
        since=format_time(row.since),
        until=format_time(row.until),
        status="completed" if row.done else "processing",
        recovered=row.recovered,
        created_at=format_time(row.created_at),
    )
