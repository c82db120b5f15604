"""Renews the leases of running jobs, and applies what the database answers."""

import asyncio
import contextlib

from common.errors import Unavailable
from common.telemetry.logs import Log
from common.views.job import job_log_fields
from services.dispatcher import metrics
from services.dispatcher.claims.store import ClaimStore
from services.dispatcher.running_job import ClaimKey, RunningJob

REQUEST_SECONDS = 0.1  # between a request and its heartbeat, which serves all requests of that time

log = Log("heartbeat")


class Heartbeat:
    """Renews all leases in one statement. `jobs` are the running jobs of this dispatcher."""

    def __init__(self, store: ClaimStore, lease: float) -> None:
        """`lease` is in seconds."""
        self.jobs: dict[ClaimKey, RunningJob] = {}
        self._store = store
        self._lease = lease
        self._requested = asyncio.Event()

    @property
    def is_requested(self) -> bool:
        return self._requested.is_set()

    def request(self) -> None:
        """Renew soon, because a cancel may be waiting."""
        self._requested.set()

    async def run(self) -> None:
        """Renew three times per lease and on request, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._lease / 3):
                    await self._requested.wait()
                await asyncio.sleep(REQUEST_SECONDS)  # a claim that runs now is committed by then
            self._requested.clear()
            if self.jobs:
                await self._renew(list(self.jobs))

    async def _renew(self, keys: list[ClaimKey]) -> None:
        try:
            held = await self._store.renew_leases(keys, self._lease)
        except Unavailable as error:
            log.warning("lease.renewal_failed", jobs=len(keys), error=error)
            return
        for key in keys:
            self._apply_heartbeat(key, held.get(key[0]))

    def _apply_heartbeat(self, key: ClaimKey, canceling: bool | None) -> None:
        """Cancel a job that is being canceled, or whose claim is lost (None)."""
        running = self.jobs.get(key)
        if running is None or running.task is None:
            return
        if canceling is None and running.recording:
            return  # the heartbeat waited for the write that ended the job
        if canceling is None:
            metrics.stale_results.inc()
            log.warning("lease.lost", **job_log_fields(running.job.row))
            running.task.cancel()  # another dispatcher runs the job, or it has ended
        elif canceling and not running.canceling:
            running.cancel()
