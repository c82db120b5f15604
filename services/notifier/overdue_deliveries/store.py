"""Ends deliveries that waited too long for a failing endpoint."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Connection, Database, Settled

QUERIES = sql.load("services.notifier.overdue_deliveries")


class OverdueDelivery(NamedTuple):
    id: UUID
    endpoint_id: UUID


class EndedDelivery(NamedTuple):
    id: UUID
    tenant_id: UUID
    job_id: UUID | None
    traceparent: str


async def find_overdue(database: Database, age: float, limit: int) -> list[OverdueDelivery]:
    """Find deliveries that waited `age` seconds for an endpoint that failed all that time."""
    return [OverdueDelivery(**record) for record in await database.fetch(QUERIES["find_overdue"], age, limit)]


async def exhaust_deliveries(connection: Connection, deliveries: Sequence[UUID]) -> list[EndedDelivery]:
    """End deliveries of locked endpoints. Return those that had no attempt in flight."""
    return [
        EndedDelivery(**record) for record in await Settled(connection).fetch(QUERIES["exhaust_deliveries"], deliveries)
    ]
