"""The statements about deliveries, one function each."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from common import delivery_view, sql
from common.database import Connection, Database
from common.delivery_view import (
    AttemptRow,
    DeliveryRow,
    DeliveryStatus,
    DeliveryView,
    read_attempt,
    read_delivery,
    view_delivery,
)
from services.gateway.times import bound_optional

QUERIES = sql.load("services.gateway", "webhooks.sql")
SHORT = 512  # bytes of each response in a list
WHOLE = 16 * 1024  # of a delivery looked at alone: all that is kept


class DeliveryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which deliveries; what is left out is open."""

    status: DeliveryStatus | None = None
    event_type: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


class LockedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    disabled: bool  # its subscription
    job_id: UUID | None
    traceparent: str  # of its job, where it has one


class DeliveryStore:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def list_by_webhook(
        self, tenant_id: UUID, webhook_id: UUID, before: UUID | None, wanted: DeliveryFilter, limit: int
    ) -> list[DeliveryView]:
        times = bound_optional(wanted.created_after), bound_optional(wanted.created_before)
        values = (tenant_id, webhook_id, before, wanted.status, wanted.event_type, *times, limit)
        found = await self.database.fetch(QUERIES["list_webhook_deliveries"], *values)
        return await self.view([read_delivery(dict(record)) for record in found], SHORT)

    async def list_by_job(
        self, tenant_id: UUID, job_id: UUID, before: UUID | None, status: DeliveryStatus | None, limit: int
    ) -> list[DeliveryView]:
        found = await self.database.fetch(QUERIES["list_job_deliveries"], tenant_id, job_id, before, status, limit)
        return await self.view([read_delivery(dict(record)) for record in found], SHORT)

    async def find(self, delivery_id: UUID, tenant_id: UUID) -> DeliveryView | None:
        record = await self.database.fetch_one(QUERIES["find_delivery"], delivery_id, tenant_id)
        return (await self.view([read_delivery(dict(record))], WHOLE))[0] if record else None

    async def view(self, rows: Sequence[DeliveryRow], size: int) -> list[DeliveryView]:
        """With their attempts, each with so many bytes of the response."""
        attempts = await self.list_attempts([row.id for row in rows], size) if rows else []
        return [view_delivery(row, attempts) for row in rows]

    async def list_attempts(self, deliveries: Sequence[UUID], size: int) -> list[AttemptRow]:
        found = await self.database.fetch(delivery_view.QUERIES["list_attempts"], deliveries, size)
        return [read_attempt(dict(record)) for record in found]

    async def lock(self, connection: Connection, delivery_id: UUID, tenant_id: UUID) -> LockedDelivery | None:
        """None where there is no such delivery."""
        await connection.execute(QUERIES["lock_delivery"], delivery_id, tenant_id)
        record = await connection.fetchrow(QUERIES["find_locked_delivery"], delivery_id, tenant_id)
        return None if record is None else LockedDelivery(**record)

    async def redeliver(self, connection: Connection, delivery_id: UUID) -> None:
        """Nothing where an attempt is under way."""
        await connection.execute(QUERIES["redeliver"], delivery_id)
