"""The keys whose jobs may have to be settled: their twin has ended or waits again, or they were made without one."""

import asyncio
from collections.abc import Iterable
from uuid import UUID

from common.reuse.key import ReuseKey

LIMIT = 50_000  # of all tenants; a sweep finds those beyond the limits
TENANT_LIMIT = 1000


class UnsettledKeys:
    """Tenants take turns, so that nobody waits for the many keys of another tenant."""

    def __init__(self) -> None:
        self._tenants: dict[UUID, dict[ReuseKey, None]] = {}  # whose turn is next comes first
        self._count = 0
        self._some = asyncio.Event()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return self._count > 0

    def note(self, keys: Iterable[ReuseKey | None]) -> None:
        """Add keys, each once. None is a job without a key."""
        for key in keys:
            if key is None or self._count >= LIMIT:
                continue
            mine = self._tenants.setdefault(key.tenant_id, {})
            if key not in mine and len(mine) < TENANT_LIMIT:
                mine[key] = None
                self._count += 1
                self._some.set()

    async def take(self, most: int) -> list[ReuseKey]:
        """Wait for a key, and return up to so many: one of each tenant by turns, its oldest first."""
        while not self._tenants:
            self._some.clear()
            await self._some.wait()
        keys: list[ReuseKey] = []
        while self._tenants and len(keys) < most:
            tenant, mine = next(iter(self._tenants.items()))
            key = next(iter(mine))
            del mine[key], self._tenants[tenant]
            if mine:
                self._tenants[tenant] = mine
            keys.append(key)
            self._count -= 1
        return keys
