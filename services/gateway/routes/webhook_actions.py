"""What can be done with a subscription besides changing it: rotate, test, recover, enable."""

import asyncio
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from uuid import UUID

import msgspec
from litestar import Request, Router, get, post
from opentelemetry.trace import get_current_span

from common import ids, tracing
from common.database import Database
from common.delivery_view import AttemptRow, view_attempt
from common.job_view import show_optional, show_time
from common.logs import Log
from common.sealing import Sealer
from services.gateway.callers import identify_caller
from services.gateway.delivery_store import WHOLE, DeliveryStore
from services.gateway.errors import (
    FINDING,
    READING,
    SENDING,
    FieldError,
    Problem,
    conflict,
    document,
    invalid,
    not_found,
)
from services.gateway.routes.references import parse_id
from services.gateway.routes.webhooks import lock, show_secret, view_webhook
from services.gateway.scopes import Scope, needs
from services.gateway.secret_rotation import SecretRotation
from services.gateway.store import Key
from services.gateway.times import bound, bound_optional
from services.gateway.webhook_schemas import (
    Recover,
    RecoveryView,
    Rotate,
    SecretView,
    TestBody,
    TestData,
    TestView,
    WebhookView,
)
from services.gateway.webhook_store import RecoveryRow, TestEvent, WebhookStore

SPARE_SECONDS = 15.0  # for a notifier to come to the attempt
TEST_POLL = 0.1

log = Log("webhook")

Caller = Request[Key, Any, Any]
ACTING = (*SENDING, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


@post(
    "/webhooks/{webhook_id:str}/rotate",
    status_code=HTTPStatus.OK,
    summary="A new secret",
    operation_id="rotate_webhook",
    **needs(Scope.ADMIN),
    responses=document(*ACTING),
)
async def rotate_webhook(
    request: Caller, webhook_id: str, rotation: SecretRotation, sealer: Sealer, data: Rotate | None = None
) -> WebhookView:
    """The old one signs too for a grace period, so that receivers can change over. The new one is only shown here."""
    grace = (data or Rotate()).grace_period
    parsed = parse_id(ids.Kind.WEBHOOK, webhook_id)
    row, rotated = await rotation.rotate_webhook(request.user.tenant_id, parsed, grace)
    log.info("webhook.rotated", webhook_id=webhook_id, **identify_caller(request))
    view = show_secret(view_webhook(row, sealer), rotated.secret)
    return msgspec.structs.replace(view, old_secret_until=show_optional(rotated.old_until))


@post(
    "/webhook-secret/rotate",
    status_code=HTTPStatus.OK,
    summary="A new secret for callbacks given per job",
    operation_id="rotate_webhook_secret",
    **needs(Scope.ADMIN),
    responses=document(*SENDING, HTTPStatus.CONFLICT),
)
async def rotate_webhook_secret(request: Caller, rotation: SecretRotation, data: Rotate | None = None) -> SecretView:
    """The old one signs too for a grace period."""
    rotated = await rotation.rotate_tenant(request.user.tenant_id, (data or Rotate()).grace_period)
    log.info("webhook_secret.rotated", **identify_caller(request))
    return SecretView(rotated.secret, show_optional(rotated.old_until))


@get(
    "/webhook-secret",
    summary="The secret that signs callbacks given per job",
    operation_id="get_webhook_secret",
    **needs(Scope.ADMIN),
    responses=document(*READING),
)
async def get_webhook_secret(request: Caller, webhooks: WebhookStore, sealer: Sealer) -> SecretView:
    return SecretView(sealer.open(await webhooks.find_tenant_secret(request.user.tenant_id)).decode())


@post(
    "/webhooks/{webhook_id:str}/test",
    status_code=HTTPStatus.OK,
    summary="Send a webhook.test event now",
    operation_id="test_webhook",
    **needs(Scope.ADMIN),
    responses=document(*FINDING),
)
async def test_webhook(
    request: Caller, webhook_id: str, webhooks: WebhookStore, database: Database, deliveries: DeliveryStore
) -> TestView:
    """Answers with the attempt, once it was made; it is the only one."""
    tenant_id = request.user.tenant_id
    async with database.transaction() as connection:
        row = await lock(webhooks, connection, webhook_id, tenant_id)
        body = TestBody("webhook.test", show_time(datetime.now(UTC)), TestData(webhook_id, row.description))
        test = TestEvent(ids.new(), ids.new(), msgspec.json.encode(body), tracing.show(get_current_span()))
        await webhooks.add_test(connection, row.id, tenant_id, test)
    attempt = view_attempt(
        await wait_for_attempt(deliveries, test.delivery_id, request.app.state.delivery_timeout + SPARE_SECONDS)
    )
    log.info("webhook.tested", webhook_id=webhook_id, error=attempt.error, **identify_caller(request))
    return TestView(delivery_id=ids.show(ids.Kind.DELIVERY, test.delivery_id), **msgspec.structs.asdict(attempt))


async def wait_for_attempt(deliveries: DeliveryStore, delivery_id: UUID, seconds: float) -> AttemptRow:
    """Raises Problem (503) where no notifier makes it in time."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                if found := await deliveries.list_attempts([delivery_id], WHOLE):
                    return found[0]
                await asyncio.sleep(TEST_POLL)
    except TimeoutError:
        text = f"no attempt was made within {seconds:g} s; does a notifier run?"
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers={"Retry-After": "30"}) from None


@post(
    "/webhooks/{webhook_id:str}/enable",
    status_code=HTTPStatus.OK,
    summary="Send to it again after it was disabled",
    operation_id="enable_webhook",
    **needs(Scope.ADMIN),
    responses=document(*FINDING),
)
async def enable_webhook(
    request: Caller, webhook_id: str, webhooks: WebhookStore, database: Database, sealer: Sealer
) -> WebhookView:
    """What was dropped when it was disabled is sent by `recover`; events since then were not kept for it."""
    async with database.transaction() as connection:
        row = await lock(webhooks, connection, webhook_id, request.user.tenant_id)
        await webhooks.enable(connection, row.id)
    return view_webhook(msgspec.structs.replace(row, disabled_at=None, disabled_reason=None), sealer)


@post(
    "/webhooks/{webhook_id:str}/recover",
    status_code=HTTPStatus.ACCEPTED,
    summary="Send again what failed in a time",
    operation_id="recover_webhook",
    **needs(Scope.ADMIN),
    responses=document(*ACTING),
)
async def recover_webhook(
    request: Caller, webhook_id: str, data: Recover, webhooks: WebhookStore, database: Database
) -> RecoveryView:
    """Each failed delivery once, oldest first, a few at a time beside what is new; it survives restarts."""
    since, until = bound(data.since), bound_optional(data.until)
    if until is not None and until <= since:
        raise invalid(FieldError("/until", "is not after since"))
    async with database.transaction() as connection:
        row = await lock(webhooks, connection, webhook_id, request.user.tenant_id)
        if row.disabled_at is not None:
            raise conflict("the webhook is disabled; enable it first")
        added = await webhooks.add_recovery(connection, ids.new(), row.id, since, until)
    log.info("webhook.recovers", webhook_id=webhook_id, **identify_caller(request))
    return view_recovery(added)


@get(
    "/webhooks/{webhook_id:str}/recoveries/{recovery_id:str}",
    summary="How far a recovery has come",
    operation_id="get_recovery",
    **needs(Scope.READ),
    responses=document(*FINDING),
)
async def get_recovery(request: Caller, webhook_id: str, recovery_id: str, webhooks: WebhookStore) -> RecoveryView:
    of, parsed = parse_id(ids.Kind.WEBHOOK, webhook_id), parse_id(ids.Kind.RECOVERY, recovery_id)
    found = await webhooks.find_recovery(parsed, of, request.user.tenant_id)
    if found is None:
        raise not_found("recovery")
    return view_recovery(found)


def view_recovery(row: RecoveryRow) -> RecoveryView:
    return RecoveryView(
        id=ids.show(ids.Kind.RECOVERY, row.id),
        webhook_id=ids.show(ids.Kind.WEBHOOK, row.webhook_id),
        since=show_time(row.since),
        until=show_time(row.until),
        status="done" if row.done else "running",
        recovered=row.recovered,
    )


router = Router(
    "/",
    route_handlers=[
        *(rotate_webhook, rotate_webhook_secret, get_webhook_secret, test_webhook),
        *(enable_webhook, recover_webhook, get_recovery),
    ],
    tags=["Webhooks"],
)
