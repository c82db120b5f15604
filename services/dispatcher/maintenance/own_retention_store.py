"""Removes ended jobs whose retention, or whose tenant's, is shorter than that of all jobs."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.job_states import Status
from common.jobs.remove import OLDEST, remove_jobs
from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.dispatcher.maintenance", "own_retention.sql")


class EndedJob(NamedTuple):
    """An ended job, and its place in the order in which such jobs are examined. `due`: it may be removed."""

    place: datetime
    id: UUID
    finished_at: datetime
    due: bool


class JobPlace(NamedTuple):
    place: datetime
    id: UUID


FIRST = JobPlace(*OLDEST)


class OwnRetentionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_tenants(self) -> list[tuple[UUID, float]]:
        """Return the tenants with a retention of their own, in seconds."""
        found = await self._database.fetch(QUERIES["find_tenants_with_retention"])
        return [(record["id"], record["retention"]) for record in found]

    async def find_of_tenant(
        self, tenant_id: UUID, retention: float, status: Status, after: JobPlace, limit: int
    ) -> list[EndedJob]:
        """Return jobs with this status that were created more than `retention` seconds ago."""
        values = tenant_id, retention, status, *after, limit
        return [
            EndedJob(*record.values()) for record in await self._database.fetch(QUERIES["find_ended_jobs"], *values)
        ]

    async def find_retained(self, after: JobPlace, limit: int) -> list[EndedJob]:
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
