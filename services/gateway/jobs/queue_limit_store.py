"""Counts the jobs of queues: waiting, due and recently ended."""

from collections.abc import Collection
from typing import NamedTuple, TypeAlias
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Database

Queue: TypeAlias = UUID | str  # of a tenant (its id), or of a model (its name)

QUERIES = sql.load("services.gateway.jobs", "queue_limits.sql")


class QueueCount(NamedTuple):
    """The waiting jobs of a queue, counted up to its limit."""

    jobs: int
    limit: int


class EndedJobs(NamedTuple):
    """The recently ended jobs of a queue, and the seconds since the first of them ended."""

    jobs: int
    seconds: float


class DueJobs(NamedTuple):
    """The jobs of a queue that could run now."""

    jobs: int
    next_in: float | None  # seconds until the next scheduled job is due
    whole: bool = True  # whether all waiting jobs were counted


class QueueLimitStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def count_queues(self, queues: Collection[Queue], per_tenant: int, per_model: int) -> dict[Queue, QueueCount]:
        """Count waiting jobs. `per_tenant` is the limit of tenants without their own."""
        found = await self._database.fetch(QUERIES["count_queues"], *split_queues(queues), per_tenant, per_model)
        return {record["tenant_id"] or record["model"]: QueueCount(record["jobs"], record["most"]) for record in found}

    async def count_due(self, queues: Collection[Queue], limit: int) -> dict[Queue, DueJobs]:
        """Count due jobs among `limit` jobs of each queue. The result has no empty queues."""
        found = await self._database.fetch(QUERIES["count_due"], *split_queues(queues), limit)
        return {
            each["tenant_id"] or each["model"]: DueJobs(each["jobs"], each["next_in"], each["whole"]) for each in found
        }

    async def count_ended(self, limit: int) -> dict[Queue, EndedJobs]:
        """Count the latest `limit` jobs that ended within a minute, by tenant and by model."""
        counts: dict[Queue, EndedJobs] = {}
        for record in await self._database.fetch(QUERIES["count_ended"], limit):
            for queue in (record["tenant_id"], record["model"]):
                jobs, seconds = counts.get(queue, (0, 0.0))
                counts[queue] = EndedJobs(jobs + record["jobs"], max(seconds, record["seconds"]))
        return counts


def split_queues(queues: Collection[Queue]) -> tuple[list[UUID], list[str]]:
    """Split queues into tenants and models."""
    tenants = [queue for queue in queues if isinstance(queue, UUID)]
    return tenants, [queue for queue in queues if isinstance(queue, str)]
