"""The micro-batcher: while one statement is in flight, callers gather; the next statement carries them all.

It adds no delay when idle and gives group commit under load: where a flush had to carry several, it rests twice as long
as that took before the next. So the busier the machine, the more one statement carries, and what it costs beside its
rows is shared by them all.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from common import metrics
from common.errors import Overloaded, Unavailable

T = TypeVar("T")
R = TypeVar("R")
HEAVY = 8 * 1024 * 1024  # bytes: what one statement carries well within its deadline
REST = 2  # times as long as a flush took,
LONGEST_REST = 0.02  # but no longer, in seconds


class Batcher(Generic[T, R]):
    def __init__(
        self,
        flush: Callable[[list[T]], Awaitable[list[R]]],
        *,
        name: str,
        limit: int = 200,
        bound: int = 20_000,
        weigh: Callable[[T], int] | None = None,
        delay: float = 0.0,
    ) -> None:
        """`flush` answers a list of items with a list of results in the same order, all or nothing.

        At most `limit` items, or as many as weigh HEAVY together, go into one flush, and at least one; with `bound`
        items waiting, `submit` raises Overloaded. `name` is for the metrics. `delay` (seconds) is before each flush,
        for what nobody waits for.
        """
        self.flush = flush
        self.sizes = metrics.batcher_items.labels(name)
        self.limit = limit
        self.bound = bound
        self.weigh = weigh
        self.delay = delay
        self.waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self.worker: asyncio.Task[None] | None = None

    async def submit(self, item: T) -> R:
        """The result for this item; raises what its flush raised, or Unavailable where the one before it did."""
        if len(self.waiting) >= self.bound:
            raise Overloaded
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self.waiting.append((item, future))
        if self.worker is None or self.worker.done():
            self.worker = asyncio.create_task(self.work())
        return await future

    async def work(self) -> None:
        clock = asyncio.get_running_loop().time
        while self.waiting:
            if self.delay:
                await asyncio.sleep(self.delay)
            batch = [(item, future) for item, future in self.take() if not future.done()]
            if batch:
                began = clock()
                self.sizes.observe(len(batch))
                await self.settle(batch)
                if len(batch) > 1 and len(self.waiting) < self.limit:
                    await asyncio.sleep(min(REST * (clock() - began), LONGEST_REST))

    def take(self) -> list[tuple[T, asyncio.Future[R]]]:
        taken: list[tuple[T, asyncio.Future[R]]] = []
        weight = 0
        while self.waiting and len(taken) < self.limit:
            weight += self.weigh(self.waiting[0][0]) if self.weigh else 0
            if taken and weight > HEAVY:
                break
            taken.append(self.waiting.popleft())
        return taken

    async def settle(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await self.flush([item for item, _ in batch])
        except Unavailable as error:
            # Whoever gathered meanwhile has waited a deadline already, and the next flush might cost as much again.
            for _, future in (*batch, *self.waiting):
                fail(future, error)
            self.waiting.clear()
        except Exception as error:  # whatever it is belongs to the callers, not to this task
            if len(batch) == 1:
                fail(batch[0][1], error)
                return
            for single in batch:  # one bad row must not fail its neighbours
                await self.settle([single])
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)


def fail(future: asyncio.Future[R], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
