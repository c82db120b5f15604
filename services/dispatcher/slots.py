"""Slots: how many inferences of a model run at once, and whose turn is next."""

import asyncio
import heapq
import time
from collections.abc import Callable

from common.jobs import Priority

# The ageing rule: who waits this many seconds longer draws level with the class above that has only just come.
HANDICAPS = {Priority.HIGH: 0.0, Priority.NORMAL: 10.0, Priority.LOW: 60.0}
QUICK_SECONDS = 0.2  # answers so quick may be more than the size at a time: nobody waits behind them for long


class Slots:
    def __init__(self, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.size = self.most = size
        self.limit = float(size)  # what the server bears at the moment, or what it takes to keep it busy
        self.used = 0
        self.refused = False  # the server's own queue was full once
        self.settling = 0  # results on their way to the database whose slots others have already
        self.clock = clock
        self.waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self.arrivals = 0

    async def acquire(self, priority: Priority) -> None:
        """Returns with a slot held; the highest class goes first, and older before newer."""
        if self.used < int(self.limit) and not self.waiting:
            self.used += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self.arrivals += 1
        heapq.heappush(self.waiting, (self.clock() + HANDICAPS[priority], self.arrivals, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the slot was handed over in the moment of the cancellation
            raise

    def release(self) -> None:
        self.used -= 1
        self.serve()

    def settle(self) -> bool:
        """Frees the slot of an inference that is over before its result is written down; whether it did.

        The server's next batch need not wait for a commit. As many results as the size may be held so, and no more: the
        database may be away.
        """
        if self.settling >= self.size:
            return False
        self.settling += 1
        self.release()
        return True

    def resize(self, size: int, most: int = 0) -> None:
        """The size, and up to how many it may be while answers are quick. The same again leaves the limit as it is."""
        most = max(size, most)
        if (size, most) != (self.size, self.most):
            self.size, self.most, self.limit, self.refused = size, most, float(size), False
            self.serve()

    def shrink(self) -> None:
        """The server's queue is full: half as many at a time as there are now, and never again more than the size."""
        self.refused = True
        self.limit = max(1.0, min(self.limit, self.used) / 2)

    def pace(self, seconds: float) -> None:
        """An inference went well, and took so long with its wait at the server.

        As many as the limit make it one more, up to the size; and beyond it while they are quick and others wait: what
        brings the next takes longer than such a model's batch. Half of what is beyond goes with each slow answer.
        """
        if self.limit < self.size:
            self.limit = min(float(self.size), self.limit + 1 / self.limit)
            self.serve()
        elif seconds > QUICK_SECONDS:
            self.limit -= (self.limit - self.size) / 2
        elif self.waiting and not self.refused:
            self.limit = min(float(self.most), self.limit + 1 / self.limit)
            self.serve()

    def serve(self) -> None:
        while self.waiting and self.used < int(self.limit):
            turn = heapq.heappop(self.waiting)[2]
            if not turn.done():
                self.used += 1
                turn.set_result(None)
