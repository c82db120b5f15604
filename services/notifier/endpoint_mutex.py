"""Serializes this process's writes to endpoint rows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MAX_HOLD_SECONDS = 0.1  # many times the duration of a statement on a nearby database


class EndpointMutex:
    """Lets one task at a time write endpoint rows.

    It only saves work: a fan-out that meets a row under change must repeat with locks. The row
    locks keep writes correct. Therefore no task waits for a holder longer than MAX_HOLD_SECONDS.
    That holder may itself wait for another process.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._held_since = 0.0  # by the loop's clock

    @property
    def is_held(self) -> bool:
        return self._lock.locked()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold the mutex, or proceed without it after the time limit."""
        acquired = await self._acquire()
        try:
            yield
        finally:
            if acquired:
                self._lock.release()

    async def _acquire(self) -> bool:
        """Return whether the mutex was acquired."""
        clock = asyncio.get_running_loop().time
        since = self._held_since if self._lock.locked() else clock()
        try:
            async with asyncio.timeout_at(since + MAX_HOLD_SECONDS):
                await self._lock.acquire()
        except TimeoutError:
            return False
        self._held_since = clock()
        return True
