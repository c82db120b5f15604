"""What runs now, and what can run: by model, at most some seconds old. Readers share one look."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.postgres.batcher import Batcher
from services.gateway.models import freshness
from services.gateway.models.residencies import MemoryUse, add_up, choose_best
from services.gateway.models.store import ModelStore, Residency, Workload


class Workloads(NamedTuple):
    """The state of all models at a time of the database's clock."""

    at: datetime
    models: Mapping[str, Workload]
    running: Mapping[str, int]  # jobs by model
    running_of_tenants: Mapping[tuple[str, UUID], int]  # jobs by (model, tenant)
    paused_tenants: Collection[UUID]
    held_models: Collection[str] = ()  # on a dispatcher of them a suspected poison job runs alone
    residencies: Mapping[str, Residency] = {}  # of models in Tritons whose memory is managed
    memory: MemoryUse | None = None  # of these Tritons; None: there are none


class WorkloadReader:
    def __init__(self, store: ModelStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._last: Workloads | None = None
        self._fresh_until = float("-inf")
        self._reads: Batcher[None, Workloads] = Batcher(self._look, name="workloads")

    async def read(self) -> Workloads:
        if self._last is not None and self._clock() < self._fresh_until:
            return self._last
        return await self._reads.submit(None)

    async def _look(self, readers: list[None]) -> list[Workloads]:
        """Look once for all readers that wait."""
        began = self._clock()
        if self._last is None or began >= self._fresh_until:
            paused = await self._store.list_paused_tenants()
            models = {workload.model: workload for workload in await self._store.list_workloads()}
            of_tenants = await self._store.count_running()
            running: Counter[str] = Counter()
            for (model, _), jobs in of_tenants.items():
                running[model] += jobs
            found = await self._store.list_residencies()
            self._last = Workloads(
                at=paused.now,
                models=models,
                running=running,
                running_of_tenants=of_tenants,
                paused_tenants=paused.tenants,
                held_models=paused.held_models,
                residencies=choose_best(found),
                memory=add_up(found),
            )
            self._fresh_until = self._clock() + freshness.FRESH_SECONDS
        return [self._last] * len(readers)
