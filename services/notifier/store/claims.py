"""Claims on due deliveries."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from common.postgres import sql
from common.postgres.database import Connection, Database
from services.notifier.endpoint_mutex import EndpointMutex
from services.notifier.store.endpoints import NEVER, reschedule_endpoints

QUERIES = sql.load("services.notifier.store", "claims.sql")


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery to attempt now.

    `secrets` (newest first) and `headers` are encrypted. `age` (seconds) and `tries` belong to its
    schedule.
    """

    id: UUID
    tenant_id: UUID
    job_id: UUID | None
    webhook_id: UUID | None
    endpoint_id: UUID
    event_type: str
    attempt: int
    url: str
    traceparent: str
    headers: bytes | None
    body: bytes
    secrets: list[bytes]
    claimed_at: datetime
    age: float
    tries: int
    event_age: float  # seconds


class ClaimBatch(NamedTuple):
    claims: list[Claim]
    wait: float  # seconds until more deliveries are due; 0 if some are due now


class ClaimStore:
    def __init__(self, database: Database, mutex: EndpointMutex) -> None:
        self._database = database
        self._mutex = mutex

    async def claim_due(self, limit: int, lease: float, endpoint_concurrency: int) -> ClaimBatch:
        """Claim up to `limit` due deliveries for a lease in seconds."""
        async with self._mutex.hold(), self._database.transaction() as connection:
            endpoints = await lock_due_endpoints(connection, limit)
            if not endpoints:
                return ClaimBatch([], NEVER)
            claims = await claim_deliveries(connection, endpoints, limit, lease, endpoint_concurrency)
            wait = await reschedule_endpoints(connection, endpoints, endpoint_concurrency)
        return ClaimBatch(claims, 0.0 if len(endpoints) == limit else wait)


async def lock_due_endpoints(connection: Connection, limit: int) -> list[UUID]:
    """Lock endpoints with due deliveries, the longest waiting first."""
    return [record["id"] for record in await connection.fetch(QUERIES["lock_due_endpoints"], limit)]


async def claim_deliveries(
    connection: Connection, endpoints: Sequence[UUID], limit: int, lease: float, endpoint_concurrency: int
) -> list[Claim]:
    """Claim due deliveries of locked endpoints, in turns."""
    found = await connection.fetch(QUERIES["claim_deliveries"], endpoints, limit, lease, endpoint_concurrency)
    return [read_claim(record) for record in found]


def read_claim(record: "asyncpg.Record") -> Claim:
    return Claim(**{name: record[name] for name in Claim.__struct_fields__})
