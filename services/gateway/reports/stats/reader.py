"""The numbers of each tenant, at most some seconds old."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from services.gateway.reports.stats.minutes import MinuteCounts, count_up
from services.gateway.reports.stats.shared_looks import SharedLooks
from services.gateway.reports.stats.store import MAX_COUNTED, Ended, Queue, StatsStore, Waiting

MAX_WAITING = 1_000_000  # jobs that are counted


class Stats(NamedTuple):
    at: datetime
    waiting: Mapping[Queue, Waiting]
    running: Mapping[Queue, int]
    ended: Mapping[tuple[Queue, int], Ended]  # by minutes, too


class Hour(NamedTuple):
    at: datetime
    minutes: Sequence[MinuteCounts]


class StatsReader:
    def __init__(self, store: StatsStore, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self._store = store
        self._stats = SharedLooks(self._look, clock)
        self._hours = SharedLooks(self._look_at_hour, clock)

    async def read(self, tenant_id: UUID) -> Stats:
        """Return a tenant's numbers."""
        return await self._stats.read(tenant_id)

    async def read_hour(self, tenant_id: UUID) -> Hour:
        """Return what became of a tenant's jobs by minute."""
        return await self._hours.read(tenant_id)

    async def _look(self, tenant_id: UUID) -> Stats:
        waiting = await self._store.count_waiting(tenant_id, MAX_WAITING)
        running = await self._store.count_running(tenant_id)
        ended = await self._store.measure_ended(tenant_id)
        return Stats(datetime.now(UTC), waiting, running, ended)

    async def _look_at_hour(self, tenant_id: UUID) -> Hour:
        minutes = await self._store.count_by_minute(tenant_id, MAX_WAITING)
        return Hour(datetime.now(UTC), count_up(minutes, MAX_COUNTED))
