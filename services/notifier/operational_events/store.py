"""Reads exhausted deliveries and adds operational events."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Connection, to_columns
from common.views import delivery
from common.views.delivery import DeliveryView, read_attempt, read_delivery, view_delivery

QUERIES = sql.load("services.notifier.operational_events")
RESPONSE_BYTES = 1024  # kept of each attempt's response


class ExhaustedDelivery(NamedTuple):
    tenant_id: UUID
    job_id: UUID
    finished_at: datetime
    traceparent: str
    view: DeliveryView


class DisabledWebhook(NamedTuple):
    id: UUID
    tenant_id: UUID
    url: str
    description: str | None
    disabled_at: datetime
    disabled_reason: Literal["gone", "failing"]


class OperationalEvent(NamedTuple):
    id: UUID
    tenant_id: UUID
    type: str
    body: bytes
    traceparent: str
    job_id: UUID | None  # the job whose webhook the event is about


async def find_exhausted(connection: Connection, deliveries: Sequence[UUID]) -> list[ExhaustedDelivery]:
    """Return these deliveries with their attempts, except deliveries of operational events."""
    found = await connection.fetch(QUERIES["find_exhausted"], deliveries)
    if not found:
        return []
    values = ([record["id"] for record in found], RESPONSE_BYTES)
    attempts = [read_attempt(dict(each)) for each in await connection.fetch(delivery.QUERIES["list_attempts"], *values)]
    return [
        ExhaustedDelivery(
            record["tenant_id"],
            record["job_id"],
            record["finished_at"],
            record["traceparent"],
            view_delivery(read_delivery(dict(record)), attempts),
        )
        for record in found
    ]


async def add_events(connection: Connection, events: Sequence[OperationalEvent]) -> None:
    await connection.execute(QUERIES["add_events"], *to_columns(events, 6))
