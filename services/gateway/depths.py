"""How many jobs wait for each model: counting them reads the index of all that wait, so readers share one count."""

import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from common.batching import Batcher
from services.gateway import freshness
from services.gateway.store import Store

Counts: TypeAlias = Mapping[tuple[str, str], int]  # by (model, priority)


class Depths:
    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self.store = store
        self.clock = clock
        self.counts: Counts = {}
        self.until = float("-inf")
        self.reads: Batcher[None, Counts] = Batcher(self.count, name="queue positions")

    async def read(self) -> Counts:
        return self.counts if self.clock() < self.until else await self.reads.submit(None)

    async def count(self, readers: list[None]) -> list[Counts]:
        began = self.clock()
        if began >= self.until:
            self.counts = await self.store.count_queued()
            now = self.clock()
            self.until = now + freshness.last(now - began)
        return [self.counts] * len(readers)
