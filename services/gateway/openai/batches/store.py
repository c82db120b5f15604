"""The SQL statements about batches that came as requests, one function each."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.jobs.job import Job, read_shown_job
from common.jobs.new_job import NewJob
from common.jobs.submit import JobTimes, submit_in_transaction
from common.postgres import sql
from common.postgres.database import Database
from common.views import batch as batch_view
from common.views.batch import BatchRow, Counts, read_batch, read_counts
from services.gateway.batches.store import ITEMS_PER_STATEMENT, NewItem, add_items, chunk_jobs
from services.gateway.http.pagination import Cursor
from services.gateway.jobs.idempotency.store import RequestKey, add_batch_key, lock_key

QUERIES = sql.load("services.gateway.openai.batches")
JOBS_PER_COUNT = 200_000  # that one statement counts


class NewRequest(NamedTuple):
    """A batch to add, without items. `seconds` is how long its lines may wait."""

    id: UUID
    tenant_id: UUID
    lines: int
    traceparent: str
    request: bytes
    input_file: UUID
    has_failed: bool
    seconds: float


class RequestedBatch(NamedTuple):
    """A batch that came as a request. `items` are how many lines have become items so far."""

    row: BatchRow
    expires_at: datetime
    request: bytes
    input_file: UUID
    items: int


class UnreadBatch(NamedTuple):
    """A batch whose file is being read: from where, and the index of its next item."""

    id: UUID
    tenant_id: UUID
    input_file: UUID
    read_to: int
    request: bytes
    traceparent: str
    is_canceled: bool
    seconds_left: float
    next_index: int


class Step(NamedTuple):
    """Lines of a batch that become items together. `end` is the place after them, or None after the last one.

    `request` replaces that of the batch, if it is given.
    """

    batch_id: UUID
    start: int
    end: int | None
    items: Sequence[NewItem]
    jobs: Sequence[NewJob]
    request: bytes | None = None


class LineRow(NamedTuple):
    """An item with what became of it, and the call that its job remembers. A refused item has a `problem` as JSON."""

    number: int
    custom_id: str | None
    problem: bytes | None
    job: Job | None
    outputs: bytes | None
    request: bytes | None


class BatchFiles(NamedTuple):
    """Which files a batch has. `request` is its record, where one batch is asked for: see record.py."""

    id: UUID
    created_at: datetime
    has_output: bool
    has_errors: bool
    request: bytes = b""


class Moved(Exception):
    """Another process was faster, or the batch was canceled. Raised inside the transaction to roll it back."""


class FileLost(Exception):
    """The input file was deleted, or has expired. Raised inside the transaction to roll it back."""


class KeyUsed(Exception):
    """The idempotency key is in use. Raised inside the transaction to roll it back."""


class RequestStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, batch: NewRequest, kept: float, key: RequestKey | None, answer: bytes) -> None:
        """Add a batch, and keep its file for `kept` seconds. Raises KeyUsed and FileLost; then nothing was added."""
        async with self._database.transaction() as connection:
            if key is not None and not await lock_key(connection, batch.tenant_id, key.key):
                raise KeyUsed
            if not await connection.fetch(QUERIES["keep_input_file"], batch.input_file, batch.tenant_id, kept):
                raise FileLost
            await connection.execute(QUERIES["add_unread_batch"], *batch)
            if key is not None:
                values = (batch.tenant_id, key, batch.id, batch.traceparent, answer)
                if not await add_batch_key(connection, *values):
                    raise KeyUsed

    async def count_unread(self, tenant_id: UUID) -> int:
        """Return how many batches of a tenant are being read."""
        (record,) = await self._database.fetch(QUERIES["count_unread_batches"], tenant_id)
        return int(record["batches"])

    async def find_unread(self, limit: int) -> list[tuple[UUID, UUID]]:
        """Return batches whose files are being read: the tenant and the batch, the oldest of each tenant first."""
        found = await self._database.fetch(QUERIES["find_unread_batches"], limit)
        return [(record["tenant_id"], record["id"]) for record in found]

    async def read_unread(self, batch_id: UUID) -> UnreadBatch | None:
        """Return a batch whose file is being read."""
        record = await self._database.fetch_one(QUERIES["read_unread_batch"], batch_id)
        return None if record is None else UnreadBatch(*record.values())

    async def advance(self, step: Step) -> dict[UUID, JobTimes] | None:
        """Add items with their jobs, and note how far the file is read: all of it or nothing.

        Return None, and add nothing, if another process was faster, or the batch was canceled meanwhile. Raises
        LargeInputsLost if a sweeper has taken a large input.
        """
        try:
            async with self._database.transaction() as connection:
                values = (step.batch_id, step.start, step.end, len(step.jobs), step.request)
                if not await connection.fetch(QUERIES["advance_batch"], *values):
                    raise Moved
                times: dict[UUID, JobTimes] = {}
                for chunk in chunk_jobs(step.jobs):
                    times |= (await submit_in_transaction(connection, chunk)).added
                for start in range(0, len(step.items), ITEMS_PER_STATEMENT):
                    await add_items(connection, step.batch_id, step.items[start : start + ITEMS_PER_STATEMENT])
                return times
        except Moved:
            return None

    async def find(self, batch_id: UUID, tenant_id: UUID) -> RequestedBatch | None:
        """Return the tenant's batch, if it came as a request."""
        record = await self._database.fetch_one(QUERIES["find_requested_batch"], batch_id, tenant_id)
        return None if record is None else read_requested(dict(record))

    async def list_batches(self, tenant_id: UUID, before: Cursor, limit: int) -> list[RequestedBatch]:
        """Return batches that came as requests, newest first."""
        found = await self._database.fetch(QUERIES["list_requested_batches"], tenant_id, *before, limit)
        return [read_requested(dict(record)) for record in found]

    async def count_jobs(self, batches: Sequence[BatchRow]) -> dict[UUID, Counts]:
        """Count the jobs of batches by status, so many with a statement that it stays short."""
        counts: dict[UUID, Counts] = {}
        for some in group_batches(batches):
            found = await self._database.fetch(batch_view.QUERIES["count_jobs"], [batch.id for batch in some])
            counts |= read_counts(found)
        return counts

    async def measure_lines(self, batch_id: UUID, start: int, limit: int, *, errors: bool) -> list[int | None]:
        """Return the bytes of the next items' lines in the file of outputs or errors, from an index. None: no line."""
        found = await self._database.fetch(QUERIES["measure_lines"], batch_id, start, limit, errors)
        return [record["size"] for record in found]

    async def read_lines(
        self, batch_id: UUID, indexes: Sequence[int], sizes: Sequence[int], *, errors: bool
    ) -> list[LineRow]:
        """Return items by their indexes, in order. The caller must have checked access and room."""
        found = await self._database.fetch(QUERIES["read_lines"], batch_id, indexes, sizes, errors)
        return [
            LineRow(
                record["index"],
                record["custom_id"],
                record["problem"],
                None if record["id"] is None else read_shown_job(dict(record)),
                record["outputs"],
                record["request"],
            )
            for record in found
        ]

    async def list_files(self, tenant_id: UUID, place: Cursor, limit: int, *, oldest_first: bool) -> list[BatchFiles]:
        """Return which files the batches of a tenant have, beyond a place."""
        query = "list_oldest_batch_files" if oldest_first else "list_batch_files"
        return [
            BatchFiles(*record.values())
            for record in await self._database.fetch(QUERIES[query], tenant_id, *place, limit)
        ]

    async def find_files(self, batch_id: UUID, tenant_id: UUID) -> BatchFiles | None:
        """Return which files a tenant's batch has, if it came as a request."""
        record = await self._database.fetch_one(QUERIES["find_batch_files"], batch_id, tenant_id)
        return None if record is None else BatchFiles(*record.values())


def read_requested(record: dict[str, object]) -> RequestedBatch:
    own = {name: record.pop(name) for name in RequestedBatch._fields if name != "row"}
    return RequestedBatch(read_batch(record), **own)  # type: ignore[arg-type]


def group_batches(batches: Sequence[BatchRow]) -> list[list[BatchRow]]:
    """Split batches into groups with at most JOBS_PER_COUNT jobs, or one batch. Pure."""
    groups: list[list[BatchRow]] = []
    size = 0
    for batch in batches:
        if not groups or size + batch.accepted > JOBS_PER_COUNT:
            groups.append([])
            size = 0
        groups[-1].append(batch)
        size += batch.accepted
    return groups
