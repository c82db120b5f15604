"""Whether anybody waits anywhere for what happens to jobs: where nobody does, no dispatcher rings."""

import time
from collections.abc import Callable

MEMORY_SECONDS = 60.0  # four times what passes at a gateway from one word to the next, so that some may be lost
DEAF_SECONDS = 20.0  # within which whoever waits has said so again


class Listeners:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds."""
        self.clock = clock
        self.until = 0.0
        self.expect()

    def hear(self) -> None:
        """Somebody listens."""
        self.until = self.clock() + MEMORY_SECONDS

    def expect(self) -> None:
        """Somebody may have said so while nothing was heard here."""
        self.until = max(self.until, self.clock() + DEAF_SECONDS)

    def are_there(self) -> bool:
        return self.clock() < self.until
