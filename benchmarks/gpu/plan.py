"""How much of the plan still fits in the time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Plan:
    """Parts of about the same length. The first one always fits, because nothing is known of it."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._clock, self._deadline = clock, clock() + seconds
        self._longest = 0.0

    def has_time(self) -> bool:
        """Return whether a part that takes as long as the longest so far would end in time."""
        return not self._longest or self._clock() + self._longest <= self._deadline

    def run(self, part: Callable[[], T]) -> tuple[T, float]:
        """Run a part; return what it returns, and its seconds."""
        began = self._clock()
        found = part()
        took = self._clock() - began
        self._longest = max(self._longest, took)
        return found, took
