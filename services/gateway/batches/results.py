"""Sends the results of a batch as lines of JSON, page by page, so that they take little memory."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from uuid import UUID

import msgspec

from common import ids
from common.errors import Unavailable
from common.telemetry.logs import Log
from common.views.job import JobUrls, view_job
from services.gateway.batches.schemas import BatchResult, ItemProblem
from services.gateway.batches.store import BatchStore, ResultRow
from services.gateway.http.limits.response_limits import ResponseLease
from services.gateway.http.problems import Problem

PAGE_ITEMS = 100
PAGE_BYTES = 1024 * 1024  # a larger result has a page of its own
LINE_BYTES = 2048  # of a line besides its outputs, metadata and problem
REMOVED = ItemProblem("urn:charonia:problem:not_found", "the job was removed after its retention", [])

log = Log("batch")


class ResultReader:
    """Reads the results of one batch. Each page waits for room in the budget of responses."""

    def __init__(self, store: BatchStore, urls: JobUrls, lease: ResponseLease, tenant_id: UUID, batch_id: UUID) -> None:
        self._store = store
        self._urls = urls
        self._lease = lease
        self._tenant_id = tenant_id
        self._batch_id = batch_id

    async def read(self, start: int) -> list[bytes]:
        """Return the next lines from an index, without newlines; none at the end. The lease holds their bytes.

        Raises Problem (503) without room, and Unavailable.
        """
        while True:
            self._lease.release()
            sizes = await self._store.measure_results(self._batch_id, start, PAGE_ITEMS)
            del sizes[cut_page(sizes) :]
            if not sizes:
                return []
            await self._lease.reserve(self._tenant_id, sum(sizes) + len(sizes) * LINE_BYTES)
            rows = await self._store.read_results(self._batch_id, start, sizes)
            if lines := [msgspec.json.encode(view_result(row, self._urls)) for row in take_next(rows, start)]:
                return lines
            # The first job has ended while this page waited for room, and its outputs need more of it.

    async def send(
        self, start: int, lines: list[bytes], recheck: Callable[[], Awaitable[None]]
    ) -> AsyncIterator[bytes]:
        """Yield these lines from an index, and all that follow. `recheck` raises Problem once the key is revoked.

        If a page cannot be read, the response stays incomplete. The client then goes on after its last line.
        """
        try:
            while lines and not self._lease.is_cut:
                start += len(lines)
                page = b"\n".join(lines)
                del lines
                yield page
                del page
                yield b"\n"  # the server forgets what it has sent only once it has the next part
                await recheck()
                lines = await self.read(start)
        except (Problem, Unavailable) as error:
            batch = ids.encode(ids.Kind.BATCH, self._batch_id)
            log.warning("batch.results_interrupted", batch_id=batch, index=start, error=error)
            self._lease.cut()


def cut_page(sizes: Sequence[int]) -> int:
    """Return how many results of these sizes make a page: as many as fit into PAGE_BYTES, but at least one. Pure."""
    total = 0
    for count, size in enumerate(sizes):
        if total and total + size > PAGE_BYTES:
            return count
        total += size
    return len(sizes)


def take_next(rows: Sequence[ResultRow], start: int) -> list[ResultRow]:
    """Return the rows from an index up to the first that is missing. Pure."""
    return [row for number, row in enumerate(rows, start) if row.number == number]


def view_result(row: ResultRow, urls: JobUrls) -> BatchResult:
    """Return a line of the results."""
    sharing = None if row.job is None else row.job.sharing_id
    outputs = None if row.outputs is None else urls.add_file_urls(row.outputs, job=sharing)
    job = None if row.job is None else view_job(row.job, urls, outputs=outputs)
    error = REMOVED if row.job is None else None
    if row.problem is not None:
        error = msgspec.json.decode(row.problem, type=ItemProblem)
    return BatchResult(index=row.number, custom_id=row.custom_id, job=job, error=error)
