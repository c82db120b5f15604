"""Operational events: what became of a tenant's deliveries and subscriptions, told to its subscriptions."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import delivery_view, ids, tracing
from common.database import Connection, columns
from common.delivery_view import DeliveryView, read_attempt, read_delivery, view_delivery
from common.job_view import show_time
from common.outbox import OutboxRow, ring_event, spread
from services.notifier.store import QUERIES

RESPONSE_BYTES = 1024  # of each attempt, in an event


class Disabled(msgspec.Struct, frozen=True):
    """The data of `webhook.disabled`: `gone` after a 410, `failing` after days without a success."""

    id: str
    url: str
    description: str | None
    status: str
    disabled_at: str
    disabled_reason: str


class OperationalBody(msgspec.Struct, frozen=True):
    type: str
    timestamp: str
    data: Disabled | DeliveryView


class Operation(NamedTuple):
    tenant_id: UUID
    type: str
    body: bytes
    message: OutboxRow
    event_id: UUID
    job_id: UUID | None  # whose webhook it tells of


def make_operation(
    tenant_id: UUID, kind: str, at: datetime, data: Disabled | DeliveryView, trace: str, job_id: UUID | None = None
) -> Operation:
    event_id = ids.new()
    body = msgspec.json.encode(OperationalBody(kind, show_time(at), data))
    return Operation(tenant_id, kind, body, ring_event(event_id, kind, trace), event_id, job_id)


async def tell_exhausted(connection: Connection, deliveries: Sequence[UUID]) -> list[OutboxRow]:
    """Events for deliveries just given up; returns their doorbells, to be announced after the commit."""
    found = await connection.fetch(QUERIES["find_exhausted"], deliveries)
    if not found:
        return []
    given_up = [record["id"] for record in found]
    tried = await connection.fetch(delivery_view.QUERIES["list_attempts"], given_up, RESPONSE_BYTES)
    attempts = [read_attempt(dict(record)) for record in tried]
    operations = []
    for record in found:
        view = view_delivery(read_delivery(dict(record)), attempts)
        at, trace = record["finished_at"], record["traceparent"]
        operations.append(make_operation(record["tenant_id"], "delivery.exhausted", at, view, trace, record["job_id"]))
    return await add(connection, operations)


async def tell_disabled(
    connection: Connection, gone: Sequence[UUID], failing: Sequence[UUID], patience: float
) -> list[OutboxRow]:
    """Disables subscriptions that are gone, and those of the endpoints (`failing`) that have failed for longer than
    `patience` (seconds), drops what waits for them, and tells the tenants' others; returns the events' doorbells."""
    found = await connection.fetch(QUERIES["disable_webhooks"], gone, failing, patience)
    if not found:
        return []
    disabled = [record["id"] for record in found]
    await connection.execute(QUERIES["cancel_pending"], disabled)
    operations = []
    for record in found:
        at: datetime = record["disabled_at"]
        data = Disabled(
            id=ids.show(ids.Kind.WEBHOOK, record["id"]),
            url=record["url"],
            description=record["description"],
            status="disabled",
            disabled_at=show_time(at),
            disabled_reason=record["disabled_reason"],
        )
        trace = tracing.new_traceparent()
        operations.append(make_operation(record["tenant_id"], "webhook.disabled", at, data, trace))
    return await add(connection, operations)


async def add(connection: Connection, operations: Sequence[Operation]) -> list[OutboxRow]:
    rows = [
        (
            *(each.event_id, each.tenant_id, each.type, each.body, each.message.traceparent),
            *(*spread(each.message)[:4], each.job_id),
        )
        for each in operations
    ]
    await connection.execute(QUERIES["add_events"], *columns(rows, 10))
    return [each.message for each in operations]
