"""Counts and measures the jobs of a tenant."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.job_states import Priority, read_text
from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.gateway.reports.stats")
MAX_ENDED = 20_000  # jobs of the last hour that are looked at
MAX_COUNTED = 200_000  # jobs of the last hour that are counted by minute


class Queue(NamedTuple):
    """A model and a priority."""

    model: str
    priority: Priority


class Waiting(NamedTuple):
    jobs: int  # that are due
    scheduled: int  # whose time has not come
    oldest_at: datetime | None  # since when the oldest due one waits


class Ended(NamedTuple):
    """Jobs that ended within some minutes. Times are medians and 95th percentiles, in milliseconds.

    `hits` took the result of another job at their submit, and `joins` after they waited for it.
    """

    covered: float  # seconds: less than the minutes have if too many jobs ended in them
    jobs: int
    failed: int
    hits: int
    joins: int
    queue_ms: Sequence[float] | None
    inference_ms: Sequence[float] | None


class Minute(NamedTuple):
    """What became of jobs within a minute, and by how many the numbers of due and of running ones grew."""

    at: datetime  # its beginning
    ended: int
    failed: int
    waiting: int
    running: int


class StatsStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def count_waiting(self, tenant_id: UUID, limit: int) -> dict[Queue, Waiting]:
        """Count a tenant's waiting jobs, at most `limit`."""
        found = await self._database.fetch(QUERIES["count_waiting"], tenant_id, limit)
        return {Queue(model, read_text(Priority, priority)): Waiting(*rest) for model, priority, *rest in found}

    async def count_running(self, tenant_id: UUID) -> dict[Queue, int]:
        found = await self._database.fetch(QUERIES["count_own_running"], tenant_id)
        return {Queue(model, read_text(Priority, priority)): jobs for model, priority, jobs in found}

    async def measure_ended(self, tenant_id: UUID, limit: int = MAX_ENDED) -> dict[tuple[Queue, int], Ended]:
        """Measure the tenant's latest ended jobs by queue, and by whether they ended within 5 or 60 minutes."""
        found = await self._database.fetch(QUERIES["measure_ended"], tenant_id, limit)
        return {
            (Queue(model, read_text(Priority, priority)), minutes): Ended(*rest)
            for model, priority, minutes, *rest in found
        }

    async def count_by_minute(self, tenant_id: UUID, waiting: int, ended: int = MAX_COUNTED) -> list[Minute]:
        """Count the tenant's jobs in the minutes of the last hour, oldest first.

        Look at the oldest `waiting` jobs that wait and the latest `ended` that ended, at most.
        """
        found = await self._database.fetch(QUERIES["count_by_minute"], tenant_id, waiting, ended)
        return [Minute(*record) for record in found]
