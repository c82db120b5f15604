"""Remembers whether a client waits at any gateway. If none waits, the dispatcher publishes no changes of jobs."""

import time
from collections.abc import Callable

PRESENCE_SECONDS = 60.0  # four times the interval at which a gateway repeats its message, so that some may be lost
REPEAT_SECONDS = 20.0  # within this time every gateway with waiters has repeated its message


class WaiterPresence:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._until = 0.0
        self.assume_waiters()

    def note_waiters(self) -> None:
        """Record a gateway's message that clients wait."""
        self._until = self._clock() + PRESENCE_SECONDS

    def assume_waiters(self) -> None:
        """Assume waiters for a while, because a message may have been missed."""
        self._until = max(self._until, self._clock() + REPEAT_SECONDS)

    def has_waiters(self) -> bool:
        return self._clock() < self._until
