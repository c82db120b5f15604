"""Runs a model on many items: in small batches, a few at a time, so that memory is bounded."""

import functools
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from charonia._async.blocking import run_blocking, sleep
from charonia._async.files import AsyncFiles
from charonia._async.output_files import download_outputs
from charonia._async.transport import AsyncTransport
from charonia.calls import LINES, MAX_WAIT, NEVER, Deadline, decode, get, submit
from charonia.errors import CharoniaError, InvalidInput, InvalidRequest
from charonia.inputs import encode_body, encode_inputs, find_only_input, has_files, read_files
from charonia.results import Done, make_done
from charonia.retry import choose_delay
from charonia.schemas import BatchData, BatchLine, ModelInfo

FLIGHTS = 4  # batches at a time
MAX_ITEMS = 10_000  # of one batch, as in the API
CHUNK_BYTES = 8 * 1024 * 1024  # of one batch, if more than one item is in it
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
        self, transport: AsyncTransport, files: AsyncFiles, model: ModelInfo, fields: dict[str, Any], max_body: int
    ) -> None:
        self._transport = transport
        self._files = files
        self._model = model
        self._defaults = encode_body({"defaults": fields}, max_body)
        self._max_body = max_body
        self._held: tuple[int, Any, bytes] | None = None  # encoded, and too large for the last batch

    async def run(self, items: Iterable[Any], concurrency: int, timeout: float) -> AsyncGenerator[Done, None]:
        """Yield each item with its result, as they end."""
        most = min(FLIGHTS, concurrency)
        source, has_more = iter(enumerate(items)), True
        flights: deque[Flight] = deque()
        patience = Deadline(timeout)
        while has_more or flights:
            while has_more and len(flights) < most:
                chunk: list[tuple[int, Any, bytes]] = []
                async for refused in self._fill(chunk, source, min(concurrency // most, MAX_ITEMS)):
                    yield refused
                has_more = bool(chunk)
                async for refused in self._launch(chunk, flights, timeout):
                    yield refused
                patience.renew()
            async for done in self._collect(flights, timeout):
                yield done
                patience.renew()  # the time that the caller takes does not count
            patience.check("the next result")

    async def _fill(
        self, chunk: list[tuple[int, Any, bytes]], source: Iterator[tuple[int, Any]], most: int
    ) -> AsyncGenerator[Done, None]:
        """Add the next items to a chunk. Yield those that do not fit the model."""
        size = 0
        while len(chunk) < most:
            found, self._held = self._held, None
            if found is None:
                if (following := next(source, None)) is None:
                    return
                index, item = following
                try:
                    found = (index, item, await encode_item(self._model, item, self._max_body, files=self._files))
                except InvalidInput as error:
                    yield Done(index, item, None, error)
                    continue
            size += len(found[2])
            if chunk and size > CHUNK_BYTES:
                self._held = found
                return
            chunk.append(found)

    async def _launch(
        self, chunk: list[tuple[int, Any, bytes]], flights: deque[Flight], timeout: float
    ) -> AsyncGenerator[Done, None]:
        """Submit a chunk as a batch, once the queue has room for it. Yield its items if the gateway refuses them."""
        if not chunk:
            return
        body = b"\n".join([self._defaults, *(line for _, _, line in chunk)])
        try:
            batch = await self._transport.call(submit("/v1/batches", body, None, LINES), BatchData, timeout)
        except InvalidRequest as error:
            if any(each.pointer.startswith("/defaults") for each in error.errors):
                raise
            for index, item, _ in chunk:
                yield Done(index, item, None, error)
            return
        flights.append(Flight(batch.id, {at: (index, item) for at, (index, item, _) in enumerate(chunk)}))

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


async def encode_item(
    model: ModelInfo, item: Any, max_body: int, custom_id: str | None = None, *, files: AsyncFiles | None = None
) -> bytes:
    """Return the line of an item: its inputs, or the value of the model's only required input. Raise InvalidInput.

    Large files are uploaded, if `files` is given: each call then returns another line.
    """
    inputs: Mapping[str, Any] = item if isinstance(item, dict) else {find_only_input(model): item}
    if files is not None:
        inputs = await files.prepare(inputs, model, max_body, Deadline(NEVER))
    elif any(map(has_files, inputs.values())):
        inputs = await run_blocking(functools.partial(read_files, inputs, max_body))
    name = {} if custom_id is None else {"custom_id": custom_id}
    return encode_body({**name, "inputs": encode_inputs(model, inputs)}, max_body)
