"""Whether anybody waits anywhere for what happens to jobs: where nobody does, no dispatcher rings."""

import time
from collections.abc import Callable

MEMORY_SECONDS = 60.0  # four times what passes at a gateway from one word to the next, so that some may be lost


class Listeners:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds."""
        self.clock = clock
        self.until = 0.0
        self.hear()  # what was said before is not known here

    def hear(self) -> None:
        """Somebody listens, or may have said so while nothing was heard here."""
        self.until = self.clock() + MEMORY_SECONDS

    def are_there(self) -> bool:
        return self.clock() < self.until
