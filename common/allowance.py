"""How often something may happen that is not free."""

import time
from collections.abc import Callable


class Allowance:
    """So many a second, saved up for one second at most."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.clock = clock
        self.left = rate
        self.seen_at = clock()

    def take(self) -> bool:
        """Whether it may happen now."""
        now = self.clock()
        self.left = min(self.rate, self.left + (now - self.seen_at) * self.rate)
        self.seen_at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True
