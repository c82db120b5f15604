"""Bounds the memory that the inputs of running jobs take in this dispatcher."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeAlias

from common.fair_budget import FairBudget
from common.jobs import Priority
from common.postgres.batcher import MAX_BATCH_BYTES
from services.dispatcher.settings import MAX_INPUTS

ROOM_SECONDS = 60.0  # for room; then the message goes back, and perhaps to another dispatcher
LOOK_SECONDS = 1.0  # for all the room that a claim wants; then it loads what fits
LARGEST_PART = 4  # a usual claim loads at most this part of what a queue may hold
OWN_PART = 128  # a queue may always hold this part of the total

Queue: TypeAlias = tuple[str, Priority]  # a model's name and a priority


class InputBudget:
    """The bytes of all inputs that are loaded. Each queue has a share.

    A claim reserves what it may load before it knows the jobs. One job always fits if its queue holds nothing, however
    large it is. A few small jobs always fit. So a queue never stops, and the bytes exceed the total by one job and this
    little for each queue at most.
    """

    def __init__(self, total: int = MAX_INPUTS) -> None:
        """`total` is in bytes."""
        self._budget: FairBudget[Queue] = FairBudget(total)
        self._usual = max(1, min(MAX_BATCH_BYTES, self._budget.largest // LARGEST_PART))
        self._own = total // OWN_PART
        self._next: dict[Queue, int] = {}  # the bytes of the next job of a queue, if it did not fit into the last claim
        self._changed = asyncio.Event()
        self.is_closed = False

    @property
    def used(self) -> int:
        return self._budget.total - self._budget.free

    async def reserve(self, queue: Queue) -> int:
        """Return the bytes that a claim may load, once there is room; 0 after ROOM_SECONDS without, or if closed.

        Waits for all that the next job needs, but not for long: by then a smaller job of another tenant may be next.
        """
        await self._wait(LOOK_SECONDS, lambda: self._room(queue) >= self._size(queue))
        await self._wait(ROOM_SECONDS, lambda: self._room(queue) > 0)
        size = 0 if self.is_closed else min(self._size(queue), self._room(queue))
        self._budget.take(queue, size)
        return size

    async def _wait(self, seconds: float, is_done: Callable[[], bool]) -> None:
        """Wait until there is room, but at most this long, and not if closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.is_closed and not is_done():
                    self._changed.clear()
                    await self._changed.wait()

    def limit_count(self, queue: Queue, count: int, size: int) -> int:
        """Return how many jobs to ask for with room for `size` bytes. More than may fit would only be locked."""
        if following := self._next.get(queue):
            return min(count, max(1, size // following))
        return count

    def note_next(self, queue: Queue, size: int | None) -> None:
        """Note the bytes of the job that did not fit into a claim, or None. The next claim waits for room for it."""
        self._next.pop(queue, None)
        if size is not None:
            self._next[queue] = size

    def release(self, queue: Queue, size: int) -> None:
        """Give bytes back: what a claim did not load, or the inputs of a job that no longer runs."""
        self._budget.take(queue, -size)
        self._changed.set()

    def close(self) -> None:
        """Let nobody wait for room any more, because the dispatcher stops."""
        self.is_closed = True
        self._changed.set()

    def _size(self, queue: Queue) -> int:
        return max(self._usual, self._next.get(queue, 0))

    def _room(self, queue: Queue) -> int:
        """Return how many bytes a claim may load now."""
        held = self._budget.held(queue)
        return max(self._budget.room(queue), self._own - held) if held else self._size(queue)
