"""Operational events about exhausted deliveries and disabled subscriptions."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from common import ids
from common.postgres.database import Connection
from common.rabbitmq.wake_ups import WakeUp, event_wake_up
from common.telemetry import tracing
from common.views.delivery import DeliveryBody
from common.views.hidden_query import hide_query
from common.views.job import format_time
from common.views.subscription import DisabledBody, DisabledView
from services.notifier.operational_events.store import DisabledWebhook, OperationalEvent, add_events, find_exhausted


async def add_exhausted_events(connection: Connection, deliveries: Sequence[UUID]) -> list[WakeUp]:
    """Add an event for each exhausted delivery.

    Return the wake-up messages, to announce after the commit.
    """
    events = [
        make_event(
            each.tenant_id,
            DeliveryBody("delivery.exhausted", format_time(each.finished_at), each.view),
            each.traceparent,
            each.job_id,
        )
        for each in await find_exhausted(connection, deliveries)
    ]
    return await save(connection, events)


async def add_disabled_events(connection: Connection, webhooks: Sequence[DisabledWebhook]) -> list[WakeUp]:
    """Add an event for each disabled subscription.

    Return the wake-up messages, to announce after the commit.
    """
    events = [
        make_event(
            each.tenant_id,
            DisabledBody("webhook.disabled", format_time(each.disabled_at), view_disabled(each)),
            tracing.new_traceparent(),
        )
        for each in webhooks
    ]
    return await save(connection, events)


async def save(connection: Connection, events: Sequence[OperationalEvent]) -> list[WakeUp]:
    if events:
        await add_events(connection, events)
    return [event_wake_up(each.id, each.type, each.traceparent) for each in events]


def view_disabled(webhook: DisabledWebhook) -> DisabledView:
    return DisabledView(
        id=ids.encode(ids.Kind.WEBHOOK, webhook.id),
        url=hide_query(webhook.url),
        description=webhook.description,
        status="disabled",
        disabled_at=format_time(webhook.disabled_at),
        disabled_reason=webhook.disabled_reason,
    )


def make_event(
    tenant_id: UUID, body: DeliveryBody | DisabledBody, traceparent: str, job_id: UUID | None = None
) -> OperationalEvent:
    return OperationalEvent(ids.new(), tenant_id, body.type, msgspec.json.encode(body), traceparent, job_id)
