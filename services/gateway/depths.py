"""How many jobs wait for each model: counting them reads the index of all that wait, so readers share one count."""

import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from common.batching import Batcher
from services.gateway.store import Store

FRESH_SECONDS = 1.0  # a count is good for so long,
COST = 20  # or for so many times as long as it took: a twentieth of the time goes into counting at most;
LONGEST_FRESH = 30.0  # but no longer

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
            took = self.clock() - began
            self.until = self.clock() + min(max(FRESH_SECONDS, COST * took), LONGEST_FRESH)
        return [self.counts] * len(readers)
