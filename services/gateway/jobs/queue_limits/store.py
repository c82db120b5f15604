"""Counts the waiting jobs of queues."""

from collections.abc import Collection
from typing import NamedTuple, TypeAlias
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Database

Queue: TypeAlias = UUID | str  # of a tenant (its id), or of a model (its name)

QUERIES = sql.load("services.gateway.jobs.queue_limits")


class QueueCount(NamedTuple):
    """The waiting jobs of a queue, counted up to its limit, and the bytes of their inputs (0 for a model's queue)."""

    jobs: int
    limit: int
    bytes: int = 0


class QueueLimitStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def count_queues(self, queues: Collection[Queue], per_tenant: int, per_model: int) -> dict[Queue, QueueCount]:
        """Count waiting jobs. `per_tenant` is the limit of tenants without their own."""
        found = await self._database.fetch(QUERIES["count_queues"], *split_queues(queues), per_tenant, per_model)
        return {
            record["tenant_id"] or record["model"]: QueueCount(record["jobs"], record["most"], record["bytes"])
            for record in found
        }


def split_queues(queues: Collection[Queue]) -> tuple[list[UUID], list[str]]:
    """Split queues into tenants and models."""
    tenants = [queue for queue in queues if isinstance(queue, UUID)]
    return tenants, [queue for queue in queues if isinstance(queue, str)]
