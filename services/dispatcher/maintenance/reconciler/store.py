"""Finds queues whose jobs wait."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from common.postgres import sql
from common.postgres.database import to_columns
from common.postgres.statements import Executor
from common.rabbitmq.messages import QueuedJob
from services.dispatcher.models.tenant_load import NIL

QUERIES = sql.load("services.dispatcher.maintenance.reconciler")


Queue = tuple[str, str]  # a model and a priority, which may be one of a later release
NO_TENANTS: Mapping[Queue, UUID] = {}


class WaitingQueue(NamedTuple):
    """A queue with claimable jobs, and their traceparents. `known`: its model is in the catalogue."""

    model: str
    priority: str
    jobs: list[QueuedJob]
    traceparents: list[str]
    known: bool

    @property
    def key(self) -> Queue:
        return self.model, self.priority

    @property
    def last_tenant(self) -> UUID:
        """The last of the tenants, in the order of their turns."""
        return [*dict.fromkeys(job.tenant_id for job in self.jobs)][-1]


async def find_waiting_queues(
    executor: Executor, age: float, limit: int, last_tenants: Mapping[Queue, UUID] = NO_TENANTS
) -> list[WaitingQueue]:
    """Return the queues with jobs that have been claimable for `age` seconds, and may start.

    Read up to `limit` jobs of each. Tenants take turns, beginning after the last one of a queue.
    """
    last = [(*queue, tenant) for queue, tenant in last_tenants.items()]
    found = await executor.fetch(QUERIES["find_waiting_queues"], age, limit, *to_columns(last, 3), NIL)
    return [
        WaitingQueue(model, priority, list(map(QueuedJob, tenants, ids)), *rest)
        for model, priority, tenants, ids, *rest in found
    ]
