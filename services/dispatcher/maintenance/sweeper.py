"""Makes jobs claimable that are due, ends expired jobs and has lost ones rescued."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from common.jobs.expire import find_expired
from common.jobs.job import AnyJob
from common.jobs.promote import promote_jobs, promote_suspect
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher import metrics
from services.dispatcher.failures.retry_policy import MAX_INTERRUPTIONS, PROBATION_SECONDS
from services.dispatcher.maintenance.lapsed_leases import LeaseGrace
from services.dispatcher.maintenance.rescuer import Rescuer
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.results.store import NotStored

BATCH = 200
END_SECONDS = 1.0  # for the ends of a batch; those that take longer delay no sweep

log = Log("sweeper")


class Sweeper:
    def __init__(
        self,
        database: Database,
        recorder: ResultRecorder,
        wake_ups: WakeUpPublisher,
        grace: LeaseGrace,
        rescuer: Rescuer,
        interval: float,
    ) -> None:
        """`interval` is in seconds."""
        self._database = database
        self._recorder = recorder
        self._wake_ups = wake_ups
        self._grace = grace
        self._rescuer = rescuer
        self._interval = interval
        self._outage = Outage()
        self._ending: dict[UUID, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Sweep at intervals, and again at once after a full batch, until cancelled."""
        try:
            while True:
                full = False
                with self._outage.tolerate("sweeper.database_unavailable", log, NotStored):
                    full = await self.sweep()
                if not full:
                    await asyncio.sleep(self._interval)
        finally:
            for task in self._ending.values():
                task.cancel()
            self._ending.clear()  # it may run again

    async def sweep(self) -> bool:
        """Handle one batch of each kind. Return whether any batch was full."""
        promoted = await promote_jobs(self._database, BATCH)
        self._wake_ups.announce(promoted)
        self._wake_ups.announce(await promote_suspect(self._database, PROBATION_SECONDS, MAX_INTERRUPTIONS))
        self._grace.note_write()  # a read-only server would have refused the write
        lost = self._leave_out_ending(await self._rescuer.find(BATCH))
        metrics.leases_lapsed.inc(len(lost))
        await self._end_each(lost, partial(self._rescuer.reclaim, await self._rescuer.find_doubtful(lost)))
        expired = self._leave_out_ending(await find_expired(self._database, BATCH))
        await self._end_each(expired, self._recorder.expire)
        return max(len(promoted), len(lost), len(expired)) >= BATCH

    def _leave_out_ending(self, jobs: Iterable[tuple[AnyJob, datetime]]) -> list[tuple[AnyJob, datetime]]:
        return [(job, now) for job, now in jobs if job.id not in self._ending]

    async def _end_each(
        self, jobs: list[tuple[AnyJob, datetime]], end: Callable[[AnyJob, datetime], Coroutine[Any, Any, None]]
    ) -> None:
        """End jobs. An end that the database does not take soon goes on beside the next sweeps."""
        started = {job.id: asyncio.create_task(end(job, now)) for job, now in jobs}
        self._ending |= started
        if started:
            await asyncio.wait(started.values(), timeout=END_SECONDS)
        done = [self._ending.pop(job) for job, task in [*self._ending.items()] if task.done()]
        await asyncio.gather(*done)  # raises what the first of them raised
