"""Decides for how long nobody asks the object store while it is away. Pure, but for the clock."""

import time
from collections.abc import Callable

FIRST_SECONDS = 0.5
MAX_SECONDS = 10.0


class Pauses:
    """A pause after each failure. It doubles from one to the next, until a success."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._pause = 0.0
        self._until = float("-inf")

    def left(self) -> float:
        """Return the seconds until the store may be asked again, or 0."""
        return max(0.0, self._until - self._clock())

    def note_failure(self) -> None:
        """Begin a pause. Failures during a pause belong to reads that began before it."""
        if self.left() == 0:
            self._pause = min(max(FIRST_SECONDS, 2 * self._pause), MAX_SECONDS)
            self._until = self._clock() + self._pause

    def note_success(self) -> None:
        self._pause, self._until = 0.0, float("-inf")
