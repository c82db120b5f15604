"""The statements about batches, one function each."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from common import batch_view, sql
from common.batch_view import BatchRow, Counts, read_batch, read_counts
from common.batching import HEAVY
from common.database import Connection, Database
from services.gateway.store import NewJob, Times, add_jobs

QUERIES = sql.load("services.gateway", "batches.sql")
CHUNK = 200  # jobs of one statement
SAVE_SECONDS = 60.0  # for all of a batch


class NewBatch(NamedTuple):
    """A batch to be added; with a key, `fingerprint` is the SHA-256 of the body."""

    id: UUID
    tenant_id: UUID
    total: int
    accepted: int
    key: str | None
    fingerprint: bytes | None
    traceparent: str


class NamedBatch(NamedTuple):
    """The batch that a key stands for already."""

    row: BatchRow
    fingerprint: bytes


class BatchStore:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def add(self, batch: NewBatch, jobs: Sequence[NewJob]) -> tuple[BatchRow, dict[UUID, Times]] | None:
        """The batch with all its jobs, or nothing of it; None where its key is used at this moment, or was just now."""
        async with self.database.transaction(SAVE_SECONDS) as connection:
            if batch.key is not None and not await self.take_key(connection, batch.tenant_id, batch.key):
                return None
            record = await connection.fetchrow(QUERIES["add_batch"], *batch)
            assert record is not None, "an INSERT without a condition returns its row"
            times: dict[UUID, Times] = {}
            for chunk in split(jobs):
                times |= await add_jobs(connection, chunk)
        return read_batch(dict(record)), times

    async def take_key(self, connection: Connection, tenant_id: UUID, key: str) -> bool:
        if not await connection.fetchval(QUERIES["hold_key"], tenant_id, key):
            return False
        await connection.execute(QUERIES["forget_key"], tenant_id, key)
        return await connection.fetchrow(QUERIES["find_named_batch"], tenant_id, key) is None

    async def find_named(self, tenant_id: UUID, key: str) -> NamedBatch | None:
        record = await self.database.fetch_one(QUERIES["find_named_batch"], tenant_id, key)
        return None if record is None else NamedBatch(read_batch(dict(record)), record["fingerprint"])

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
