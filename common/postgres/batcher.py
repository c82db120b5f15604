"""The micro-batcher: callers gather while a statement is in flight, and the next statement carries them all.

An idle batcher adds no delay. Under load it gives group commit. After a batch of several items it pauses for twice the
time that the batch took. So the busier the machine, the more one statement carries.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from common.errors import Overloaded, Unavailable
from common.telemetry import metrics

T = TypeVar("T")
R = TypeVar("R")
MAX_BATCH_BYTES = 8 * 1024 * 1024  # one statement carries this well within its deadline
PAUSE_FACTOR = 2  # times as long as the batch took
MAX_PAUSE_SECONDS = 0.02


class Batcher(Generic[T, R]):
    """Collects items of concurrent callers into batches."""

    def __init__(
        self,
        flush: Callable[[list[T]], Awaitable[list[R]]],
        *,
        name: str,
        limit: int = 200,
        max_waiting: int = 20_000,
        size_of: Callable[[T], int] | None = None,
        delay: float = 0.0,
    ) -> None:
        """`flush` turns a list of items into a list of results in the same order, all or nothing.

        A batch has at least one item, at most `limit` items, and at most MAX_BATCH_BYTES by `size_of`. Beyond
        `max_waiting` items, `submit` raises Overloaded. `name` labels the metrics. `delay` (seconds) precedes each
        batch, for items that nobody waits for.
        """
        self._flush = flush
        self._sizes = metrics.batcher_items.labels(name)
        self._limit = limit
        self._max_waiting = max_waiting
        self._size_of = size_of
        self._delay = delay
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def submit(self, item: T) -> R:
        """Return the item's result. Raise what its batch raised, or Unavailable if the batch before it did."""
        if len(self._waiting) >= self._max_waiting:
            raise Overloaded
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._waiting:
            if self._delay:
                await asyncio.sleep(self._delay)
            batch = [(item, future) for item, future in self._next_batch() if not future.done()]
            if batch:
                began = clock()
                self._sizes.observe(len(batch))
                await self._finish(batch)
                if len(batch) > 1 and len(self._waiting) < self._limit:
                    await asyncio.sleep(min(PAUSE_FACTOR * (clock() - began), MAX_PAUSE_SECONDS))

    def _next_batch(self) -> list[tuple[T, asyncio.Future[R]]]:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        size = 0
        while self._waiting and len(batch) < self._limit:
            size += self._size_of(self._waiting[0][0]) if self._size_of else 0
            if batch and size > MAX_BATCH_BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _finish(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await self._flush([item for item, _ in batch])
        except Unavailable as error:
            # Callers that gathered meanwhile have waited one deadline already. The next flush might cost them another.
            for _, future in (*batch, *self._waiting):
                _fail(future, error)
            self._waiting.clear()
        except Exception as error:  # every error belongs to the callers, not to this task
            if len(batch) == 1:
                _fail(batch[0][1], error)
                return
            for single in batch:  # one bad row must not fail its neighbours
                await self._finish([single])
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)


def _fail(future: asyncio.Future[R], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
