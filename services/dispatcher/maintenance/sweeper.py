"""Promotes scheduled jobs that are due, ends expired jobs and reclaims abandoned jobs."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from common import job_spans
from common.job_states import Failure, Status
from common.jobs.job import AnyJob, ClaimedJob
from common.jobs.rescue import LostJobs
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher import metrics, retry_policy
from services.dispatcher.crash_causes import find_doubtful
from services.dispatcher.maintenance.lapsed_leases import LapsedLeases, LeaseGrace
from services.dispatcher.maintenance.sweeper_store import SweeperStore
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.results.store import NotStored
from services.dispatcher.sessions.lost_sessions import LostSessions

BATCH = 200
END_SECONDS = 1.0  # for the ends of a batch; those that take longer delay no sweep
ABANDONED = Failure("worker_lost", "the worker that ran the attempt was lost", True)

log = Log("sweeper")


class Sweeper:
    def __init__(
        self,
        store: SweeperStore,
        recorder: ResultRecorder,
        wake_ups: WakeUpPublisher,
        grace: LeaseGrace,
        lapsed_leases: LapsedLeases,
        lost_sessions: LostSessions,
        interval: float,
    ) -> None:
        """`interval` is in seconds."""
        self._store = store
        self._recorder = recorder
        self._wake_ups = wake_ups
        self._grace = grace
        self._lapsed_leases = lapsed_leases
        self._lost_sessions = lost_sessions
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

    async def sweep(self) -> bool:
        """Handle one batch of each kind. Return whether any batch was full."""
        promoted = await self._store.promote_jobs(BATCH)
        self._wake_ups.announce(promoted)
        self._wake_ups.announce(await self._store.promote_suspect())
        self._grace.note_write()  # a read-only server would have refused the write
        abandoned = await self._find_abandoned()
        metrics.leases_lapsed.inc(len(abandoned))
        await self._end_each(abandoned, partial(self._reclaim, await self._find_doubtful(abandoned)))
        expired = self._leave_out_ending(await self._store.find_expired(BATCH))
        await self._end_each(expired, self._recorder.expire)
        return max(len(promoted), len(abandoned), len(expired)) >= BATCH

    async def _find_abandoned(self) -> LostJobs:
        """Return jobs whose lease has lapsed, and jobs of dispatchers that died."""
        lapsed = await self._lapsed_leases.find(BATCH)
        lost = await self._lost_sessions.find()
        orphaned = await self._store.find_orphaned(lost, BATCH) if lost else []
        if lost:
            await self._store.forget_models(lost)
        if orphaned:
            log.warning("sweeper.dispatcher_lost", jobs=len(orphaned))
        return self._leave_out_ending({job.id: (job, now) for job, now in (*lapsed, *orphaned)}.values())

    async def _find_doubtful(self, lost: LostJobs) -> set[UUID]:
        """Return the suspects that may not be what killed their dispatcher."""
        workers = {job.worker for job, _ in lost if job.probation is not None}
        return find_doubtful(lost, await self._store.find_beside([*workers])) if workers else set()

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

    async def _reclaim(self, doubtful: Collection[UUID], job: ClaimedJob, now: datetime) -> None:
        """Record the attempt of a lost worker, with a span in place of those that the worker did not export."""
        with job_spans.start_span_at(job.started_at, "lost", job) as trace:
            if job.status is Status.CANCELING:
                await self._recorder.cancel(job, now, trace)
            else:
                lost = retry_policy.Lost(ABANDONED, doubtful=job.id in doubtful)
                await self._recorder.record_failure(job, lost, now, trace)
