"""The keys that may have jobs to settle: their twin has ended here, or they were made here without one."""

import asyncio
from collections.abc import Iterable
from itertools import islice

from common.reuse.key import ReuseKey

LIMIT = 10_000  # beyond that, a sweep finds them


class UnsettledKeys:
    def __init__(self) -> None:
        self._keys: dict[ReuseKey, None] = {}
        self._some = asyncio.Event()

    def note(self, keys: Iterable[ReuseKey | None]) -> None:
        """Add keys, each once. None is a job without a key."""
        for key in keys:
            if key is not None and len(self._keys) < LIMIT:
                self._keys[key] = None
                self._some.set()

    async def take(self, most: int) -> list[ReuseKey]:
        """Wait for a key, and return up to so many of those that wait longest."""
        while not self._keys:
            self._some.clear()
            await self._some.wait()
        keys = list(islice(self._keys, most))
        for key in keys:
            del self._keys[key]
        return keys
