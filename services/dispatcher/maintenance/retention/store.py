"""Finds and removes old rows."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from common.jobs.remove import remove_jobs
from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.dispatcher.maintenance.retention")


class JobCursor(NamedTuple):
    """A position in an order of ended jobs: by their end, or by the end of their own retention."""

    at: datetime
    id: UUID


class EndedJob(NamedTuple):
    """A job to remove, with the time by which such jobs are ordered."""

    at: datetime
    id: UUID
    finished_at: datetime


FIRST = JobCursor(datetime.fromtimestamp(0, UTC), UUID(int=0))


class RetentionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def remove_keys(self, limit: int) -> int:
        """Remove idempotency keys older than a day. Return how many were removed."""
        return len(await self._database.fetch(QUERIES["remove_keys"], limit))

    async def remove_expired_api_keys(self, limit: int) -> int:
        """Remove API keys that expired more than a day ago. Return how many were removed."""
        return len(await self._database.fetch(QUERIES["remove_expired_api_keys"], limit))

    async def remove_audit_log(self, age: float, limit: int) -> int:
        """Remove entries of the audit log that are older than `age` seconds. Return how many were removed."""
        return len(await self._database.fetch(QUERIES["remove_audit_log"], age, limit))

    async def remove_batches(self, age: float, limit: int, items: int) -> int:
        """Remove batches without jobs that ended more than `age` seconds ago. Return how many were removed.

        Stops after the batch with which their items reach `items`.
        """
        return len(await self._database.fetch(QUERIES["remove_batches"], age, limit, items))

    async def find_tenants(self) -> list[tuple[UUID, float]]:
        """Return the tenants with a retention of their own, in seconds."""
        found = await self._database.fetch(QUERIES["find_tenants_with_retention"])
        return [(record["id"], record["retention"]) for record in found]

    async def find_of_tenant(self, tenant_id: UUID, retention: float, after: JobCursor, limit: int) -> list[EndedJob]:
        """Return jobs that ended more than `retention` seconds ago."""
        found = await self._database.fetch(QUERIES["find_ended_jobs"], tenant_id, retention, *after, limit)
        return [EndedJob(*record.values()) for record in found]

    async def find_retained(self, after: JobCursor, limit: int) -> list[EndedJob]:
        """Return jobs whose own retention is over."""
        found = await self._database.fetch(QUERIES["find_retained_jobs"], *after, limit)
        return [EndedJob(*record.values()) for record in found]

    async def remove(self, jobs: Sequence[EndedJob], items: int) -> int:
        """Remove those of the jobs that nobody needs, and batches that have no jobs left. Return how many jobs.

        A statement removes no more batches than those with which their items reach `items`.
        """
        removed, batches = await remove_jobs(self._database, jobs)
        while batches and (gone := await self._database.fetch(QUERIES["remove_empty_batches"], list(batches), items)):
            batches -= {record["id"] for record in gone}
        return removed
