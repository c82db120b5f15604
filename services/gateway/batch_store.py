"""The statements about batches, one function each."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from common import batch_view, sql
from common.batch_view import BatchRow, Counts, read_batch, read_counts
from common.batching import HEAVY
from common.database import Connection, Database
from services.gateway.idempotency_store import Label, hold_key, name_batch
from services.gateway.store import NewJob, Times, add_jobs

QUERIES = sql.load("services.gateway", "batches.sql")
CHUNK = 200  # jobs of one statement
SAVE_SECONDS = 60.0  # for all of a batch


class NewBatch(NamedTuple):
    """A batch to be added; `answer` is what a repeat is told, where there is a label."""

    id: UUID
    tenant_id: UUID
    total: int
    accepted: int
    traceparent: str
    label: Label | None = None
    answer: bytes = b""


class KeyUsed(Exception):
    """So nothing of the transaction is kept."""


class BatchStore:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def add(self, batch: NewBatch, jobs: Sequence[NewJob]) -> tuple[BatchRow, dict[UUID, Times]] | None:
        """The batch with all its jobs, or nothing of it; None where its key is used at this moment, or was just now."""
        try:
            async with self.database.transaction(SAVE_SECONDS) as connection:
                return await self.add_within(connection, batch, jobs)
        except KeyUsed:
            return None

    async def add_within(
        self, connection: Connection, batch: NewBatch, jobs: Sequence[NewJob]
    ) -> tuple[BatchRow, dict[UUID, Times]]:
        """The key is held from the start, so that nobody does the same work, and written at the end: jobs submitted
        meanwhile under the same one don't wait for all of this, nor do those that share a statement with them."""
        if batch.label is not None and not await hold_key(connection, batch.tenant_id, batch.label.key):
            raise KeyUsed
        record = await connection.fetchrow(QUERIES["add_batch"], *batch[:5])
        assert record is not None, "an INSERT without a condition returns its row"
        times: dict[UUID, Times] = {}
        for chunk in split(jobs):
            times |= await add_jobs(connection, chunk)
        if batch.label is not None:
            values = (batch.tenant_id, batch.label, batch.id, batch.traceparent, batch.answer)
            if not await name_batch(connection, *values):
                raise KeyUsed
        return read_batch(dict(record)), times

    async def find(self, batch_id: UUID, tenant_id: UUID) -> BatchRow | None:
        record = await self.database.fetch_one(QUERIES["find_batch"], batch_id, tenant_id)
        return None if record is None else read_batch(dict(record))

    async def count_jobs(self, batch_id: UUID) -> Counts:
        """By state."""
        found = await self.database.fetch(batch_view.QUERIES["count_jobs"], [batch_id])
        return read_counts(found).get(batch_id, {})


def split(jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    """What one statement carries well within its deadline."""
    chunk: list[NewJob] = []
    weight = 0
    for job in jobs:
        weight += len(job.tensors)
        if chunk and (len(chunk) == CHUNK or weight > HEAVY):
            yield chunk
            chunk, weight = [], len(job.tensors)
        chunk.append(job)
    if chunk:
        yield chunk
