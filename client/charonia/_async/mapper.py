"""Runs a model on many items: in small batches, a few at a time, so that memory is bounded."""

import time
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from charonia._async.blocking import sleep
from charonia._async.files import AsyncFiles
from charonia._async.output_files import download_outputs
from charonia._async.planner import AsyncPlanner, Chunk
from charonia._async.transport import AsyncTransport
from charonia.calls import LINES, MAX_WAIT, Deadline, decode, get, submit
from charonia.errors import CharoniaError, InvalidRequest, TooLarge
from charonia.ordering import WINDOW, Ordering
from charonia.results import Done, make_done
from charonia.retry import choose_delay
from charonia.schemas import BatchData, BatchLine

FLIGHTS = 4  # batches at a time
MAX_ITEMS = 10_000  # of one batch, as in the API
KEY = "Idempotency-Key"
FIRST_WAIT, LONGEST_WAIT = 0.25, 2.0  # seconds for the oldest batch, while others may end before it


class Flight:
    """A submitted batch, and the items that have no result yet, by their positions in it."""

    def __init__(self, batch_id: str, items: dict[int, tuple[int, Any]]) -> None:
        self.path = f"/v1/batches/{batch_id}"
        self.size = len(items)
        self.missing = items
        self.pause = FIRST_WAIT
        self.next_read = 0.0


class AsyncMapper:
    """One run of `map`."""

    def __init__(
        self, transport: AsyncTransport, files: AsyncFiles, planner: AsyncPlanner, defaults: bytes, *, ordered: bool
    ) -> None:
        """`defaults` is the line with the arguments of the run."""
        self._transport = transport
        self._files = files
        self._planner = planner
        self._defaults = defaults
        self._order: Ordering[Done] | None = Ordering() if ordered else None
        self._size = 1  # items of a chunk

    async def run(self, concurrency: int, timeout: float) -> AsyncGenerator[Done, None]:
        """Yield each item with its result: as they end, or in their order."""
        most = min(FLIGHTS, concurrency)
        self._size = min(concurrency // most, MAX_ITEMS)
        async for done in self._run(most, WINDOW * concurrency, timeout):
            for each in [done] if self._order is None else self._order.add(done.index, done):
                yield each

    async def _run(self, most: int, window: int, timeout: float) -> AsyncGenerator[Done, None]:
        has_more = True
        flights: deque[Flight] = deque()
        patience = Deadline(timeout)
        while has_more or flights:
            while has_more and len(flights) < most and not self._is_ahead(window):
                chunk = await self._planner.plan(self._size)
                if chunk is None:
                    has_more = False
                    break
                async for refused in self._launch(chunk, flights, timeout):
                    yield refused
                patience.renew()
            async for done in self._collect(flights, timeout):
                yield done
                patience.renew()  # the time that the caller takes does not count
            patience.check("the next result")

    def _is_ahead(self, items: int) -> bool:
        """Return whether so many items are planned that the next one in order has to come first."""
        return self._order is not None and self._planner.planned - self._order.next >= items

    async def _launch(self, chunk: Chunk, flights: deque[Flight], timeout: float) -> AsyncGenerator[Done, None]:
        """Submit a chunk as a batch, once the queue has room for it. Yield the items that are refused."""
        batch_id, refusal = chunk.batch, None
        if not chunk.submitted:
            try:
                batch_id = await self._submit(chunk, timeout)
            except TooLarge:  # such as a batch that is larger than the queue may be
                await self._planner.drop(chunk)
                if len(chunk.sent) == 1:
                    raise
                self._size = max(1, len(chunk.entries) // 2)
                return
            except InvalidRequest as error:
                if any(each.pointer == KEY for each in error.errors):  # an earlier run submitted other items with it
                    raise
                if any(each.pointer.startswith("/defaults") for each in error.errors):
                    await self._planner.drop(chunk)
                    raise
                await self._planner.note_refused(chunk, error)
                refusal = error
        if batch_id is not None:
            items = {at: (each.number, each.item) for at, each in enumerate(chunk.sent)}
            flights.append(Flight(batch_id, items))
        for each in chunk.entries:
            if (reason := each.error or refusal) is not None:
                yield Done(each.number, each.item, None, reason)

    async def _submit(self, chunk: Chunk, timeout: float) -> str | None:
        """Return the id of a batch with these items, or None if there are none."""
        batch_id = None
        if chunk.sent:
            body = b"\n".join([self._defaults, *(each.line for each in chunk.sent)])
            call = submit("/v1/batches", body, chunk.key, LINES)
            batch_id = (await self._transport.call(call, BatchData, timeout)).id
        await self._planner.note_submitted(batch_id)
        return batch_id

    async def _collect(self, flights: deque[Flight], timeout: float) -> AsyncGenerator[Done, None]:
        """Wait a moment for the oldest batch. Yield what has ended, and forget batches that have."""
        for number, flight in enumerate(list(flights)):
            wait = 0.0 if number else flight.pause
            batch = await self._transport.call(get(flight.path, wait=wait), BatchData)
            is_over = batch.ended == batch.total
            has_news = batch.ended > flight.size - len(flight.missing)
            if is_over or (has_news and time.monotonic() >= flight.next_read):
                async for done in self._read(flight, timeout):
                    yield done
                flight.next_read = time.monotonic() + flight.pause
            if not number:
                flight.pause = min(2 * flight.pause, LONGEST_WAIT if len(flights) > 1 else MAX_WAIT)
            if not flight.missing:
                flights.remove(flight)
            elif is_over:  # the results broke off: go on in the next round
                await sleep(choose_delay(1, None))

    async def _read(self, flight: Flight, timeout: float) -> AsyncGenerator[Done, None]:
        """Yield the items of a batch that have ended."""
        call = get(f"{flight.path}/results", {"from": min(flight.missing), "partial": True})
        async for text in self._transport.read_lines(call):
            line = decode(text, BatchLine)
            if line.index in flight.missing and (done := make_done(*flight.missing[line.index], line)):
                del flight.missing[line.index]
                yield await self._download(done, Deadline(timeout))

    async def _download(self, done: Done, deadline: Deadline) -> Done:
        """Return an item with the contents of its outputs that are in files."""
        if done.job is None or not done.job.outputs or done.error is not None:
            return done
        try:
            outputs = await download_outputs(self._files, done.job.outputs, done.job.id, deadline)
        except CharoniaError as error:
            return Done(done.index, done.item, done.job, error)
        return Done(done.index, done.item, msgspec.structs.replace(done.job, outputs=outputs), None)
