"""Reads and writes batches."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from common.jobs.input_files import lock_files
from common.jobs.job import Job, read_shown_job
from common.jobs.new_job import JobFile, NewJob
from common.jobs.submit import JobTimes, submit_in_transaction
from common.jobs.submit_run import add_runs
from common.postgres import sql
from common.postgres.batcher import MAX_BATCH_BYTES
from common.postgres.database import Connection, Database, to_columns
from common.views import batch as batch_view
from common.views.batch import BatchRow, Counts, read_batch, read_counts
from services.gateway.batches.schemas import ItemProblem
from services.gateway.jobs.idempotency.store import RequestKey, add_batch_key, lock_key

QUERIES = sql.load("services.gateway.batches")
JOBS_PER_STATEMENT = 200
ITEMS_PER_STATEMENT = 1000
TRANSACTION_SECONDS = 60.0  # for the whole batch


class NewItem(NamedTuple):
    """An item to add: a job, or the problem why there is none. `number` is its index."""

    number: int
    job_id: UUID | None
    custom_id: str | None = None
    problem: ItemProblem | None = None


class NewBatch(NamedTuple):
    """A batch to add. With a request_key, `answer` is stored as the response to repeated requests."""

    id: UUID
    tenant_id: UUID
    total: int
    accepted: int
    traceparent: str
    request_key: RequestKey | None = None
    answer: bytes = b""
    items: Sequence[NewItem] = ()


class KeyUsed(Exception):
    """The idempotency key is in use. Raised inside the transaction to roll it back."""


class FileGone(Exception):
    """A file was deleted since the job that reads it was checked. Raised inside the transaction to roll it back."""

    def __init__(self, file: JobFile) -> None:
        super().__init__(file)
        self.file = file


class ResultRow(NamedTuple):
    """An item with what became of it. A refused item has a `problem` as JSON; a removed job is None without one."""

    number: int
    custom_id: str | None
    problem: bytes | None
    job: Job | None
    outputs: bytes | None


class BatchStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, batch: NewBatch, jobs: Sequence[NewJob]) -> tuple[BatchRow, dict[UUID, JobTimes]] | None:
        """Add the batch with all its jobs. Return None, and add nothing, if its idempotency key is in use.

        Raises FileGone, and LargeInputsLost if a sweeper has taken a large input.
        """
        try:
            async with self._database.transaction(TRANSACTION_SECONDS) as connection:
                return await self._add(connection, batch, jobs)
        except KeyUsed:
            return None

    async def _add(
        self, connection: Connection, batch: NewBatch, jobs: Sequence[NewJob]
    ) -> tuple[BatchRow, dict[UUID, JobTimes]]:
        # The key is locked first, so that no other request does the same work. It is written last. Otherwise a job with
        # the same key would wait for this transaction, and so would the jobs that share its statement.
        if batch.request_key is not None and not await lock_key(connection, batch.tenant_id, batch.request_key.key):
            raise KeyUsed
        for file in (await lock_files(connection, jobs)).values():  # before all the work
            raise FileGone(file)
        record = await connection.fetchrow(QUERIES["add_batch"], *batch[:5])
        assert record is not None, "an INSERT without a condition returns its row"
        times: dict[UUID, JobTimes] = {}
        for chunk in chunk_jobs([job for job in jobs if not job.is_run]):
            times |= (await submit_in_transaction(connection, chunk)).added
        for chunk in chunk_jobs([job for job in jobs if job.is_run]):
            times |= await add_runs(connection, chunk, wait=True)  # a sweeper begins them: each makes jobs of its own
        for start in range(0, len(batch.items), ITEMS_PER_STATEMENT):
            await add_items(connection, batch.id, batch.items[start : start + ITEMS_PER_STATEMENT])
        if batch.request_key is not None:
            values = (batch.tenant_id, batch.request_key, batch.id, batch.traceparent, batch.answer)
            if not await add_batch_key(connection, *values):
                raise KeyUsed
        return read_batch(dict(record)), times

    async def find(self, batch_id: UUID, tenant_id: UUID) -> BatchRow | None:
        """Return the tenant's batch."""
        record = await self._database.fetch_one(QUERIES["find_batch"], batch_id, tenant_id)
        return None if record is None else read_batch(dict(record))

    async def cancel(self, batch_id: UUID, tenant_id: UUID) -> bool:
        """Mark the tenant's batch as canceled. Return False if it is completed, or there is none."""
        return await self._database.fetch_one(QUERIES["cancel_batch"], batch_id, tenant_id) is not None

    async def find_canceled(self) -> list[tuple[UUID, UUID]]:
        """Return a canceled batch with jobs to cancel of each tenant: the tenant and the batch."""
        found = await self._database.fetch(QUERIES["find_canceled_batches"])
        return [(record["tenant_id"], record["id"]) for record in found]

    async def find_jobs_to_cancel(self, batch_id: UUID, limit: int) -> list[UUID]:
        """Return jobs of the batch that wait or run, and are not being canceled."""
        found = await self._database.fetch(QUERIES["find_jobs_to_cancel"], batch_id, limit)
        return [record["id"] for record in found]

    async def find_open_job(self, batch_id: UUID) -> UUID | None:
        """Return a job of the batch that waits or runs, or None if all have ended."""
        record = await self._database.fetch_one(QUERIES["find_open_job"], batch_id)
        return None if record is None else record["id"]

    async def measure_results(self, batch_id: UUID, start: int, limit: int) -> list[int]:
        """Return the sizes in bytes of the next results from an index, in order."""
        found = await self._database.fetch(QUERIES["measure_results"], batch_id, start, limit)
        return [record["size"] for record in found]

    async def read_results(self, batch_id: UUID, start: int, sizes: Sequence[int]) -> list[ResultRow]:
        """Return the results from an index that have no more than these bytes each, in order.

        The caller must have checked access and room.
        """
        found = await self._database.fetch(QUERIES["read_results"], batch_id, start, sizes)
        return [
            ResultRow(
                record["index"],
                record["custom_id"],
                record["problem"],
                None if record["id"] is None else read_shown_job(dict(record)),
                record["outputs"],
            )
            for record in found
        ]

    async def count_jobs(self, batch_id: UUID) -> Counts:
        """Count the jobs of a batch by status."""
        found = await self._database.fetch(batch_view.QUERIES["count_jobs"], [batch_id])
        return read_counts(found).get(batch_id, {})


async def add_items(connection: Connection, batch_id: UUID, items: Sequence[NewItem]) -> None:
    """Add items of a batch with one statement."""
    rows = [
        (item.number, item.job_id, item.custom_id, None if item.problem is None else msgspec.json.encode(item.problem))
        for item in items
    ]
    await connection.execute(QUERIES["add_batch_items"], batch_id, *to_columns(rows, 4))


def chunk_jobs(jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    """Split the jobs into chunks that one statement inserts well within its deadline."""
    chunk: list[NewJob] = []
    weight = 0
    for job in jobs:
        weight += len(job.tensors)
        if chunk and (len(chunk) == JOBS_PER_STATEMENT or weight > MAX_BATCH_BYTES):
            yield chunk
            chunk, weight = [], len(job.tensors)
        chunk.append(job)
    if chunk:
        yield chunk
