"""Reads deliveries, and redelivers them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from common.postgres import sql
from common.postgres.database import Connection, Database, Settled
from common.views import delivery
from common.views.delivery import (
    AttemptRow,
    DeliveryRow,
    DeliveryStatus,
    DeliveryView,
    read_attempt,
    read_delivery,
    view_delivery,
)
from services.gateway.http.validation.timestamps import bound_optional

QUERIES = sql.load("services.gateway.webhooks.deliveries")
LIST_RESPONSE_BYTES = 512  # of each response in a list
FULL_RESPONSE_BYTES = 16 * 1024  # of each response of a single delivery: all that is stored


class DeliveryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects deliveries. None matches everything."""

    status: DeliveryStatus | None = None
    event_types: tuple[str, ...] | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


class LockedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    disabled: bool  # whether its subscription is disabled
    job_id: UUID | None
    traceparent: str  # of its job, if it has one


class DeliveryStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_by_webhook(
        self, tenant_id: UUID, webhook_id: UUID, before: UUID | None, filters: DeliveryFilter, limit: int
    ) -> list[DeliveryView]:
        """Return the newest deliveries with an id below `before`."""
        times = bound_optional(filters.created_after), bound_optional(filters.created_before)
        values = (tenant_id, webhook_id, before, filters.status, filters.event_types, *times, limit)
        found = await self._database.fetch(QUERIES["list_webhook_deliveries"], *values)
        return await self._view([read_delivery(dict(record)) for record in found], LIST_RESPONSE_BYTES)

    async def list_by_job(
        self, tenant_id: UUID, job_id: UUID, before: UUID | None, status: DeliveryStatus | None, limit: int
    ) -> list[DeliveryView]:
        """Return the newest deliveries with an id below `before`."""
        found = await self._database.fetch(QUERIES["list_job_deliveries"], tenant_id, job_id, before, status, limit)
        return await self._view([read_delivery(dict(record)) for record in found], LIST_RESPONSE_BYTES)

    async def list_rows_by_job(
        self, tenant_id: UUID, job_id: UUID, limit: int
    ) -> tuple[list[DeliveryRow], list[AttemptRow]]:
        """Return the newest deliveries, newest first, and their attempts without responses, oldest first."""
        found = await self._database.fetch(QUERIES["list_job_deliveries"], tenant_id, job_id, None, None, limit)
        rows = [read_delivery(dict(record)) for record in found]
        return rows, await self.list_attempts([row.id for row in rows], 0) if rows else []

    async def find(self, delivery_id: UUID, tenant_id: UUID) -> DeliveryView | None:
        """Return the tenant's delivery with all its attempts."""
        record = await self._database.fetch_one(QUERIES["find_delivery"], delivery_id, tenant_id)
        return (await self._view([read_delivery(dict(record))], FULL_RESPONSE_BYTES))[0] if record else None

    async def find_body(self, delivery_id: UUID, tenant_id: UUID) -> bytes | None:
        """Return what each attempt of the tenant's delivery sends. Return None for an unknown delivery."""
        record = await self._database.fetch_one(QUERIES["find_delivery_body"], delivery_id, tenant_id)
        return None if record is None else record["body"]

    async def _view(self, rows: Sequence[DeliveryRow], size: int) -> list[DeliveryView]:
        """Return views with all attempts, and `size` bytes of each response."""
        attempts = await self.list_attempts([row.id for row in rows], size) if rows else []
        return [view_delivery(row, attempts) for row in rows]

    async def list_attempts(self, deliveries: Sequence[UUID], size: int) -> list[AttemptRow]:
        """Return the attempts of these deliveries, with `size` bytes of each response."""
        found = await self._database.fetch(delivery.QUERIES["list_attempts"], deliveries, size)
        return [read_attempt(dict(record)) for record in found]

    async def lock(self, connection: Connection, delivery_id: UUID, tenant_id: UUID) -> LockedDelivery | None:
        """Lock the delivery's endpoint until the transaction ends. Return None for an unknown delivery."""
        await connection.execute(QUERIES["lock_delivery"], delivery_id, tenant_id)
        record = await connection.fetchrow(QUERIES["find_locked_delivery"], delivery_id, tenant_id)
        return None if record is None else LockedDelivery(**record)

    async def redeliver(self, connection: Connection, delivery_id: UUID) -> None:
        """Make a locked delivery due now. Does nothing while an attempt runs."""
        await Settled(connection).fetch(QUERIES["redeliver"], delivery_id)
