"""Completes batches in the database."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from common.postgres import sql
from common.postgres.database import Connection, Database, to_columns
from common.views import batch
from common.views.batch import BatchRow, read_batch, read_counts

QUERIES = sql.load("services.dispatcher.maintenance.batches")


class OpenBatch(NamedTuple):
    """A batch that is not completed. `done`: all its jobs have ended."""

    id: UUID
    done: bool


class LockedBatch(NamedTuple):
    """A batch that this transaction completes."""

    row: BatchRow
    tenant: UUID
    traceparent: str
    now: datetime


class CompletedBatch(msgspec.Struct, frozen=True):
    """The end of a batch with its event."""

    id: UUID
    finished_at: datetime | None
    event_id: UUID
    type: str
    body: bytes
    traceparent: str


class BatchStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        return self._database.transaction()

    async def find_open(self, after: UUID, limit: int) -> list[OpenBatch]:
        """Return the next open batches in the order of their ids."""
        found = await self._database.fetch(QUERIES["find_open_batches"], after, limit)
        return [OpenBatch(record["id"], record["done"]) for record in found]

    async def lock(self, connection: Connection, batches: Sequence[UUID]) -> list[LockedBatch]:
        """Lock the given batches, except those that another instance completes or has completed."""
        found = await connection.fetch(QUERIES["lock_batches"], batches)
        return [
            LockedBatch(read_batch(dict(record)), record["tenant_id"], record["traceparent"], record["now"])
            for record in found
        ]

    async def count_jobs(self, connection: Connection, batches: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
        """Return the number of jobs in each status, by batch."""
        return read_counts(await connection.fetch(batch.QUERIES["count_jobs"], batches))

    async def save_completed(self, connection: Connection, completed: Sequence[CompletedBatch]) -> None:
        rows = [msgspec.structs.astuple(each) for each in completed]
        await connection.execute(QUERIES["complete_batches"], *to_columns(rows, 6))
