"""Rescues the jobs of dispatchers that died, or that no longer renew their leases."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from common import job_spans
from common.job_states import Failure, Status
from common.jobs.job import ClaimedJob
from common.jobs.rescue import LostJobs, find_beside, find_orphaned
from common.postgres.statements import Executor
from common.telemetry.logs import Log
from services.dispatcher.failures import retry_policy
from services.dispatcher.failures.crash_causes import find_doubtful
from services.dispatcher.maintenance.lapsed_leases import LapsedLeases
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.sessions.lost_sessions import LostSessions
from services.dispatcher.sessions.store import SessionStore

ABANDONED = Failure("worker_lost", "the worker that ran the attempt was lost", True)

log = Log("sweeper")


class Rescuer:
    def __init__(
        self,
        database: Executor,
        recorder: ResultRecorder,
        lapsed_leases: LapsedLeases,
        lost_sessions: LostSessions,
        sessions: SessionStore,
    ) -> None:
        self._database = database
        self._recorder = recorder
        self._lapsed_leases = lapsed_leases
        self._lost_sessions = lost_sessions
        self._sessions = sessions

    async def find(self, limit: int) -> LostJobs:
        """Return jobs whose lease has lapsed, and jobs of dispatchers that died."""
        lapsed = await self._lapsed_leases.find(limit)
        dead = await self._lost_sessions.find()
        orphaned = await find_orphaned(self._database, dead, limit) if dead else []
        if dead:
            await self._sessions.forget_models(dead)
        if orphaned:
            log.warning("sweeper.dispatcher_lost", jobs=len(orphaned))
        return [*{job.id: (job, now) for job, now in (*lapsed, *orphaned)}.values()]

    async def find_doubtful(self, lost: LostJobs) -> set[UUID]:
        """Return the suspects that may not be what killed their dispatcher."""
        workers = {job.worker for job, _ in lost if job.probation is not None}
        return find_doubtful(lost, await find_beside(self._database, [*workers])) if workers else set()

    async def reclaim(self, doubtful: Collection[UUID], job: ClaimedJob, now: datetime) -> None:
        """Record the attempt of a lost worker, with a span in place of those that the worker did not export."""
        with job_spans.start_span_at(job.started_at, "lost", job) as trace:
            if job.status is Status.CANCELING:
                await self._recorder.cancel(job, now, trace)
            else:
                lost = retry_policy.Lost(ABANDONED, doubtful=job.id in doubtful)
                await self._recorder.record_failure(job, lost, now, trace)
