"""A limit on how often something happens."""

import time
from collections.abc import Callable


class TokenBucket:
    """Holds the tokens of one second at most."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`rate` is in tokens a second. `clock` returns seconds."""
        self._rate = rate
        self._clock = clock
        self._tokens = rate
        self._filled_at = clock()

    def acquire(self) -> bool:
        """Take a token. Return False if there is none."""
        now = self._clock()
        self._tokens = min(self._rate, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
