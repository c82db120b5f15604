"""Settles groups of jobs that wait for a twin, page by page."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from common import ids
from common.errors import DatabaseUnavailable, StatementTimeout
from common.jobs.take_results import Joiner, list_joiners, release_joiners, take_results
from common.jobs.twins import FoundTwin, find_loads, find_twins, lift_twins, promote_twins
from common.postgres.database import Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.wake_ups import WakeUpPublisher, event_wake_up
from common.reuse.decisions import is_live
from common.reuse.key import ReuseKey
from common.telemetry.logs import Log
from common.telemetry.metrics import count_reused
from common.telemetry.outage import Outage
from common.views.job import MAX_OUTPUTS, JobUrls, job_log_fields
from services.dispatcher.results.run_progress import RunProgress
from services.dispatcher.results.unsettled_keys import UnsettledKeys
from services.dispatcher.reuse.takers import (
    PAGE_JOBS,
    choose_takers,
    end_taker,
    finish,
    measure_page,
    promote_first,
    wanted_version,
)

GROUPS = 2  # at a time

log = Log("job")


class Settler:
    """Lets jobs take the result of their twin, or makes the oldest of them the twin.

    Several processes may settle one group at once: whoever is slower finds the jobs locked, or ended.
    """

    def __init__(
        self,
        database: Database,
        runs: RunProgress,
        unsettled: UnsettledKeys,
        wake_ups: WakeUpPublisher,
        changes: ChangePublisher,
        urls: JobUrls,
    ) -> None:
        self._database = database
        self._runs = runs
        self._unsettled = unsettled
        self._wake_ups = wake_ups
        self._changes = changes
        self._urls = urls

    async def run(self) -> None:
        """Settle the groups that are noted here, until cancelled. A sweep finds those that this cannot settle."""
        async with asyncio.TaskGroup() as group:
            for _ in range(GROUPS):
                group.create_task(self._repeat())

    async def _repeat(self) -> None:
        outage = Outage()
        while True:
            key = await self._unsettled.take()
            with outage.tolerate("reuse.database_unavailable", log):
                await self.try_settle(key)

    async def try_settle(self, key: ReuseKey) -> None:
        """Settle a group. Whatever is wrong with one must not hold up others. Raises DatabaseUnavailable."""
        try:
            await self.settle(key)
        except Exception as error:
            if isinstance(error, DatabaseUnavailable) and not isinstance(error, StatementTimeout):
                raise
            log.warning("reuse.not_settled", tenant=ids.encode(ids.Kind.TENANT, key.tenant_id), error=error)

    async def settle(self, key: ReuseKey) -> None:
        """Settle a group, until none of its jobs can go on now."""
        may_go_on = True
        while may_go_on:
            may_go_on = await self._settle_page(key)

    async def _settle_page(self, key: ReuseKey) -> bool:
        """Settle the oldest jobs of a group. Return whether later ones may be settled, too."""
        twin = (await find_twins(self._database, [key], MAX_OUTPUTS)).get(key)
        found = await list_joiners(self._database, key, measure_page(twin))
        if not found:
            return False
        joiners, now = [job for job, _ in found], found[0][1]
        if twin is not None and twin.state is not None:
            if is_live(twin.state):
                return False
            loads = await find_loads(self._database, twin.state.model, wanted_version(twin, joiners[0]))
            if takers := choose_takers(twin, joiners, loads or ()):
                return await self._take(twin, takers, now)
        if await find_loads(self._database, joiners[0].model, joiners[0].version) is None:
            released = await release_joiners(self._database, [job.id for job in joiners])
            self._wake_ups.announce(released)  # they fail together, not one after the other
            return bool(released)
        self._wake_ups.announce(await promote_twins(self._database, [promote_first(twin, joiners)]))
        if len(joiners) == PAGE_JOBS:  # a later one may have a higher priority
            self._wake_ups.announce(await lift_twins(self._database, [key]))
        return False

    async def _take(self, twin: FoundTwin, takers: Sequence[Joiner], now: datetime) -> bool:
        """Let jobs take a result. Return whether one of them did."""
        ended = [finish(job, twin, now) for job in takers]
        taken = await self._take_together(twin, [job for job in ended if job.parent is None])
        steps: dict[UUID, list[Joiner]] = {}
        for job in ended:
            if job.parent is not None:
                steps.setdefault(job.parent, []).append(job)
        for run, jobs in steps.items():
            taken |= await self._take_of_run(twin, run, jobs)
        self._note(twin, [job for job in ended if job.id in taken])
        return bool(taken)

    async def _take_together(self, twin: FoundTwin, jobs: Sequence[Joiner]) -> set[UUID]:
        if not jobs:
            return set()
        ends = [end_taker(job, twin, self._urls) for job in jobs]
        taken = await take_results(self._database, twin.job_id, ends)
        self._wake_ups.announce(
            event_wake_up(end.event.id, end.event.type, end.event.traceparent) for end in ends if end.id in taken
        )
        return taken

    async def _take_of_run(self, twin: FoundTwin, run: UUID, jobs: Sequence[Joiner]) -> set[UUID]:
        """Let jobs of steps take a result, and carry their run on."""
        ends = [end_taker(job, twin, self._urls) for job in jobs]
        taken, wake_ups = await self._runs.take_results(run, twin.job_id, jobs, ends)
        self._wake_ups.announce(wake_ups)
        return taken

    def _note(self, twin: FoundTwin, jobs: Sequence[Joiner]) -> None:
        self._changes.notify(job.id for job in jobs)
        for job in jobs:
            count_reused(job.model, "join", twin.inference_ms)
            log.info("job.reused", **job_log_fields(job), twin=ids.encode(ids.Kind.JOB, twin.job_id))
