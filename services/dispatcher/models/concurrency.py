"""Limits how many inferences of a model run at once, and decides which waiter is next."""

import asyncio
import heapq
import time
from collections.abc import Callable

from common.job_states import Priority

# Ageing: a waiter that has waited this many seconds longer is equal to a new waiter of the class above.
AGEING_SECONDS = {Priority.HIGH: 0.0, Priority.NORMAL: 10.0, Priority.LOW: 60.0}
QUICK_SECONDS = 0.2  # for quicker inferences the limit may exceed the size: the wait at the server stays short


def count_slots(instances: int, max_batch_size: int) -> int:
    """Return twice what Triton runs at once, so that its next batch is always ready."""
    return instances * max(1, max_batch_size) * 2


class ConcurrencyLimit:
    """The slots of one model: each running inference holds one."""

    def __init__(self, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self.size = self.max_size = size
        self.limit = float(size)  # adapts between 1 and max_size
        self.used = 0
        self.saving = 0  # results on their way to the database that no longer hold a slot
        self._queue_was_full = False  # the server's own queue, at least once
        self._clock = clock
        self._waiters: list[tuple[float, int, asyncio.Future[None]]] = []
        self._arrivals = 0

    async def acquire(self, priority: Priority) -> None:
        """Return with a slot held. The highest class goes first, and within a class the oldest waiter."""
        if self.count_free():
            self.used += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._waiters, (self._clock() + AGEING_SECONDS[priority], self._arrivals, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # this waiter got the slot just before it was cancelled
            raise

    def count_free(self) -> int:
        """Return how many slots are free that nobody waits for."""
        return 0 if self._waiters else max(0, int(self.limit) - self.used)

    def release(self) -> None:
        self.used -= 1
        self._grant()

    def release_before_save(self) -> bool:
        """Free the slot of a finished inference before its result is saved. Return whether it was freed.

        The server's next batch then does not wait for a commit. At most `size` results may be in this state, because
        the database may be away.
        """
        if self.saving >= self.size:
            return False
        self.saving += 1
        self.release()
        return True

    def note_saved(self) -> None:
        """Record that a result whose slot was freed early is saved."""
        self.saving -= 1

    def resize(self, size: int, max_size: int = 0) -> None:
        """Set the size, and the limit that quick inferences may reach. Unchanged values keep the current limit."""
        max_size = max(size, max_size)
        if (size, max_size) != (self.size, self.max_size):
            self.size, self.max_size, self.limit, self._queue_was_full = size, max_size, float(size), False
            self._grant()

    @property
    def is_refused(self) -> bool:
        """Whether fewer inferences run than the size allows, because the server's queue was full."""
        return self._queue_was_full and int(self.limit) < self.size

    def shrink(self) -> None:
        """Halve the limit because the server's queue is full. From now on the limit stays within the size."""
        self._queue_was_full = True
        self.limit = max(1.0, min(self.limit, self.used) / 2)

    def note_success(self, seconds: float) -> None:
        """Adapt the limit to an inference that succeeded. `seconds` includes the wait at the server.

        Below the size, the limit grows by one after as many successes as the limit. Above the size it grows only while
        inferences are quick and jobs wait: fetching the next job then takes longer than a batch. Each slow inference
        removes half of the excess over the size.
        """
        if self.limit < self.size:
            self.limit = min(float(self.size), self.limit + 1 / self.limit)
            self._grant()
        elif seconds > QUICK_SECONDS:
            self.limit -= (self.limit - self.size) / 2
        elif self._waiters and not self._queue_was_full:
            self.limit = min(float(self.max_size), self.limit + 1 / self.limit)
            self._grant()

    def _grant(self) -> None:
        while self._waiters and self.used < int(self.limit):
            turn = heapq.heappop(self._waiters)[2]
            if not turn.done():
                self.used += 1
                turn.set_result(None)
