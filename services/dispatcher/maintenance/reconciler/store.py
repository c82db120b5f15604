"""Finds queues whose jobs wait."""

from typing import NamedTuple
from uuid import UUID

from common.job_states import Priority
from common.postgres import sql
from common.postgres.statements import Executor
from services.dispatcher.models.tenant_load import NIL

QUERIES = sql.load("services.dispatcher.maintenance.reconciler")


class WaitingQueue(NamedTuple):
    """A queue with claimable jobs, and their traceparents and ids. `known`: its model is in the catalogue."""

    model: str
    priority: Priority
    jobs: list[str]
    ids: list[UUID]
    known: bool


async def find_waiting_queues(executor: Executor, age: float, limit: int) -> list[WaitingQueue]:
    """Return the queues with jobs that have been claimable for `age` seconds, and may start. Read up to `limit`."""
    found = await executor.fetch(QUERIES["find_waiting_queues"], age, limit, NIL)
    return [WaitingQueue(model, Priority(priority), *rest) for model, priority, *rest in found]
