"""Lets a model rest whose queue in Triton stays full."""

import asyncio
import time
from collections.abc import Awaitable, Callable

FIRST_SECONDS = 0.25
MAX_SECONDS = 5.0


class Backoff:
    """A pause before the next inference of a model. It doubles with each refusal, until a success.

    Refusals during a pause belong to inferences that began before it.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._sleep = sleep
        self._pause = 0.0
        self._until = float("-inf")

    def note_refusal(self) -> None:
        now = self._clock()
        if now >= self._until:
            self._pause = min(max(FIRST_SECONDS, 2 * self._pause), MAX_SECONDS)
            self._until = now + self._pause

    def note_success(self) -> None:
        self._pause, self._until = 0.0, float("-inf")

    async def wait(self) -> None:
        """Return when there is no pause, at once as a rule."""
        while (left := self._until - self._clock()) > 0:
            await self._sleep(left)
