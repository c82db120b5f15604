"""Sends the files of a batch: their lines are read from its jobs, page by page, so that they take little memory.

Nothing of them is stored. So a file has what there is at the moment: also of a batch that runs, that was cancelled, or
whose time was over.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

from common import ids
from common.errors import Unavailable
from common.job_states import Status
from common.telemetry.logs import Log
from services.gateway.batches.results import PAGE_ITEMS, cut_page
from services.gateway.http.limits.response_limits import ResponseLease
from services.gateway.http.problems import Problem
from services.gateway.http.worker_processes import Workers
from services.gateway.openai.batches.lines import write_body, write_erased, write_error, write_failed, write_output
from services.gateway.openai.batches.store import LineRow, RequestStore
from services.gateway.openai.calls.outputs import OutputReader
from services.gateway.openai.calls.record import read_record

SCAN = 1000  # items that are measured at a time
LINE_BYTES = 2048  # of a line besides what was measured
COPIES = 2  # of outputs and text, while a line is written

log = Log("batch")


class OutputLines:
    """The lines of one file of a batch, from the first to the last. Each page waits for room among the responses."""

    def __init__(
        self,
        store: RequestStore,
        reader: OutputReader,
        workers: Workers,
        lease: ResponseLease,
        tenant_id: UUID,
        batch_id: UUID,
        *,
        endpoint: str,
        errors: bool,
    ) -> None:
        """`endpoint` is that of the batch."""
        self._store = store
        self._reader = reader
        self._workers = workers
        self._lease = lease
        self._tenant_id = tenant_id
        self._batch_id = batch_id
        self._endpoint = endpoint
        self._errors = errors
        self._next = 0  # the index of the item that is measured next
        self._measured: list[tuple[int, int]] = []  # items with a line, and its bytes

    async def read(self) -> list[bytes]:
        """Return the next lines, without their ends; none at the end of the file. The lease holds their bytes.

        Raises Problem (503) without room, and Unavailable.
        """
        while await self._measure():
            page = self._measured[:PAGE_ITEMS]
            del page[cut_page([size for _, size in page]) :]
            del self._measured[: len(page)]
            indexes, sizes = [index for index, _ in page], [size for _, size in page]
            self._lease.release()
            await self._lease.reserve(self._tenant_id, COPIES * sum(sizes) + len(sizes) * LINE_BYTES)
            rows = await self._store.read_lines(self._batch_id, indexes, sizes, errors=self._errors)
            lines = [line for row in rows if (line := await self._write(row)) is not None]
            if lines:
                return lines
        return []

    async def _measure(self) -> bool:
        """Measure items until one has a line. Return whether there is one."""
        while not self._measured:
            sizes = await self._store.measure_lines(self._batch_id, self._next, SCAN, errors=self._errors)
            if not sizes:
                return False
            self._measured = [(self._next + at, size) for at, size in enumerate(sizes) if size is not None]
            self._next += len(sizes)
        return True

    async def _write(self, row: LineRow) -> bytes | None:
        """Return the line of an item, or None if it has none in this file any more."""
        if self._errors:
            return write_error(self._batch_id, row, self._endpoint)
        if row.job is None or row.job.status is not Status.SUCCEEDED:
            return None
        if row.request is None or row.outputs is None:
            return write_erased(self._batch_id, row)
        try:
            responses = await self._reader.read(self._tenant_id, row.outputs, self._lease)
            endpoint, size = read_record(row.request).endpoint, len(row.outputs)
            body = await self._workers.work(size, write_body, endpoint, row.job, row.request, responses)
        except Problem as problem:
            return write_failed(self._batch_id, row, problem)
        return write_output(self._batch_id, row, row.job, body)

    async def send(self, lines: list[bytes], recheck: Callable[[], Awaitable[None]]) -> AsyncIterator[bytes]:
        """Yield these lines, and all that follow. `recheck` raises Problem once the key is revoked.

        If a page cannot be read, the response stays incomplete.
        """
        try:
            while lines and not self._lease.is_cut:
                page = b"\n".join(lines)
                del lines
                yield page
                del page
                yield b"\n"  # the server forgets what it has sent only once it has the next part
                await recheck()
                lines = await self.read()
        except (Problem, Unavailable) as error:
            batch = ids.encode(ids.Kind.BATCH, self._batch_id)
            log.warning("batch.results_interrupted", batch_id=batch, index=self._next, error=error)
            self._lease.cut()
