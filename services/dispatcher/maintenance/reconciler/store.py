"""Finds queues whose jobs wait."""

from typing import NamedTuple

from common.job_states import Priority
from common.postgres import sql
from common.postgres.statements import Executor
from common.rabbitmq.messages import QueuedJob
from services.dispatcher.models.tenant_load import NIL

QUERIES = sql.load("services.dispatcher.maintenance.reconciler")


class WaitingQueue(NamedTuple):
    """A queue with claimable jobs, and their traceparents. `known`: its model is in the catalogue."""

    model: str
    priority: Priority
    jobs: list[QueuedJob]
    traceparents: list[str]
    known: bool


async def find_waiting_queues(executor: Executor, age: float, limit: int) -> list[WaitingQueue]:
    """Return the queues with jobs that have been claimable for `age` seconds, and may start. Read up to `limit`."""
    found = await executor.fetch(QUERIES["find_waiting_queues"], age, limit, NIL)
    return [
        WaitingQueue(model, Priority(priority), list(map(QueuedJob, tenants, ids)), *rest)
        for model, priority, tenants, ids, *rest in found
    ]
