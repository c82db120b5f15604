"""Wakes the delivery worker, and names endpoints to claim from that the database does not show as due."""

import asyncio
from collections.abc import Iterable
from uuid import UUID


class DueEndpoints:
    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._waiting: set[UUID] = set()

    def wake(self) -> None:
        """Claim now: an endpoint may have become due."""
        self._woken.set()

    def add(self, endpoints: Iterable[UUID]) -> None:
        """Claim from these endpoints too: deliveries may wait for room there, and nobody wrote a time to check them."""
        self._waiting.update(endpoints)
        if self._waiting:
            self.wake()

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def take(self) -> set[UUID]:
        """Return the added endpoints, and forget them."""
        taken, self._waiting = self._waiting, set()
        return taken

    def put_back(self, endpoints: Iterable[UUID]) -> None:
        """Add endpoints for the next claim, without starting it."""
        self._waiting.update(endpoints)

    async def wait(self, seconds: float) -> bool:
        """Wait for a wake-up, up to a number of seconds. Return whether it came."""
        try:
            async with asyncio.timeout(seconds):
                return await self._woken.wait()
        except TimeoutError:
            return False

    def clear(self) -> None:
        """Forget earlier wake-ups."""
        self._woken.clear()
