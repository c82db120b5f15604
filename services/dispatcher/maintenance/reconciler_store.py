"""Finds queues whose jobs wait, and jobs whose model is gone."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple
from uuid import UUID

from common.jobs import Priority
from common.postgres import sql
from common.postgres.database import Connection, Database
from services.dispatcher.claims.claimed_job import read_claimed_job
from services.dispatcher.maintenance.sweeper_store import JobsAtTime
from services.dispatcher.models.fair_share import NIL

QUERIES = sql.load("services.dispatcher.maintenance", "reconciler.sql")
LOCK = 0x0C4A201A_52454343  # any number that nothing else locks


class WaitingQueue(NamedTuple):
    """A queue with claimable jobs, and their traceparents and ids. `known`: its model is in the catalogue."""

    model: str
    priority: Priority
    jobs: list[str]
    ids: list[UUID]
    known: bool


class ReconcilerStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def try_lock(self) -> AsyncIterator["Connection | None"]:
        """Begin a transaction that no other dispatcher is in. None if another is."""
        async with self._database.transaction() as connection:
            yield connection if await connection.fetchval(QUERIES["try_lock"], LOCK) else None

    async def find_waiting_queues(self, connection: Connection, age: float, limit: int) -> list[WaitingQueue]:
        """Return the queues with jobs that have been claimable for `age` seconds, and may start. Read up to `limit`."""
        found = await connection.fetch(QUERIES["find_waiting_queues"], age, limit, NIL)
        return [WaitingQueue(model, Priority(priority), *rest) for model, priority, *rest in found]

    async def find_unserved(self, models: Sequence[str], limit: int) -> JobsAtTime:
        """Return claimable jobs of these models."""
        found = await self._database.fetch(QUERIES["find_unserved"], models, limit)
        return [(read_claimed_job(dict(record)), record["now"]) for record in found]
