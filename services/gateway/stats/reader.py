"""The numbers of each tenant, at most some seconds old. Concurrent readers share one look."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple
from uuid import UUID

from services.gateway.models.cached_read import fresh_for
from services.gateway.stats.store import Ended, Queue, StatsStore, Waiting

MAX_WAITING = 1_000_000  # jobs that are counted
MAX_TENANTS = 1000  # whose numbers are kept


class Stats(NamedTuple):
    at: datetime
    waiting: Mapping[Queue, Waiting]
    running: Mapping[Queue, int]
    ended: Mapping[tuple[Queue, int], Ended]  # by minutes, too


class StatsReader:
    def __init__(self, store: StatsStore, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self._store = store
        self._clock = clock
        self._known: OrderedDict[UUID, tuple[Stats, float]] = OrderedDict()  # with the time until which they are good
        self._looking: dict[UUID, asyncio.Task[Stats]] = {}

    async def read(self, tenant_id: UUID) -> Stats:
        """Return a tenant's numbers. A slow look is repeated less often."""
        stats, until = self._known.get(tenant_id, (None, 0.0))
        if stats is not None and self._clock() < until:
            return stats
        if tenant_id not in self._looking:
            self._looking[tenant_id] = asyncio.create_task(self._look(tenant_id))
            self._looking[tenant_id].add_done_callback(partial(self._forget_look, tenant_id))
        return await asyncio.shield(self._looking[tenant_id])

    async def _look(self, tenant_id: UUID) -> Stats:
        began = self._clock()
        waiting = await self._store.count_waiting(tenant_id, MAX_WAITING)
        running = await self._store.count_running(tenant_id)
        ended = await self._store.measure_ended(tenant_id)
        stats, now = Stats(datetime.now(UTC), waiting, running, ended), self._clock()
        self._known[tenant_id] = stats, now + fresh_for(now - began)
        self._known.move_to_end(tenant_id)
        if len(self._known) > MAX_TENANTS:
            self._known.popitem(last=False)
        return stats

    def _forget_look(self, tenant_id: UUID, look: asyncio.Task[Stats]) -> None:
        del self._looking[tenant_id]
        if not look.cancelled():
            look.exception()  # all who waited for it may have gone
