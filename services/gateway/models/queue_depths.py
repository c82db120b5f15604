"""The depth of each model's queue. Counting reads the index of all waiting jobs, so readers share one count."""

import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from common.postgres.batcher import Batcher
from services.gateway.models import freshness
from services.gateway.models.store import ModelStore

Counts: TypeAlias = Mapping[tuple[str, str], int]  # by (model, priority)


class QueueDepths:
    """Waiting jobs by model and priority, at most some seconds old."""

    def __init__(self, store: ModelStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._counts: Counts = {}
        self._fresh_until = float("-inf")
        self._reads: Batcher[None, Counts] = Batcher(self._count, name="queue positions")

    async def read(self) -> Counts:
        return self._counts if self._clock() < self._fresh_until else await self._reads.submit(None)

    async def _count(self, readers: list[None]) -> list[Counts]:
        """Count once for all readers that wait."""
        began = self._clock()
        if began >= self._fresh_until:
            self._counts = await self._store.count_queued()
            now = self._clock()
            self._fresh_until = now + freshness.fresh_for(now - began)
        return [self._counts] * len(readers)
