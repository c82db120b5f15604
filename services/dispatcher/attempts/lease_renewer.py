"""Renews the leases of running jobs, and applies what the database answers."""

import asyncio

from common.errors import Unavailable
from common.jobs.job import ClaimKey
from common.jobs.renew import HeldClaim, renew_leases
from common.postgres.statements import Executor
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from common.views.job import job_log_fields
from services.dispatcher import metrics
from services.dispatcher.attempts.running_job import RunningJobs

AGAIN_SECONDS = 1.0  # before what could not be renewed is tried again
REQUEST_SECONDS = 0.1  # between a request and its renewal, which serves all requests of that time

log = Log("heartbeat")


class LeaseRenewer:
    """Renews the leases of all running jobs in one statement."""

    def __init__(self, database: Executor, jobs: RunningJobs, lease: float) -> None:
        """`jobs` are the running jobs of this dispatcher. `lease` is in seconds."""
        self._jobs = jobs
        self._database = database
        self._lease = lease
        self._requested = asyncio.Event()
        self._outage = Outage()

    @property
    def is_requested(self) -> bool:
        return self._requested.is_set()

    def request(self) -> None:
        """Renew soon, because a cancel may be waiting."""
        self._requested.set()

    async def run(self) -> None:
        """Renew three times per lease and on request, until cancelled. Try what was not renewed again soon."""
        clock = asyncio.get_running_loop().time
        left: list[ClaimKey] = []
        due = clock() + self._lease / 3
        while True:
            requested = await self._wait(min(due, clock() + AGAIN_SECONDS) if left else due)
            left = [key for key in left if key in self._jobs]
            if requested or clock() >= due:
                left, due = list(self._jobs), clock() + self._lease / 3
            if left:
                left = await self._renew(left)

    async def _wait(self, until: float) -> bool:
        """Wait until a time of the loop. Return earlier on a request, and whether there was one."""
        try:
            async with asyncio.timeout_at(until):
                await self._requested.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(REQUEST_SECONDS)  # a claim that runs now is committed by then
        self._requested.clear()
        return True

    async def _renew(self, keys: list[ClaimKey]) -> list[ClaimKey]:
        """Renew leases, and cancel what is lost or being canceled. Return those that were not renewed."""
        try:
            held = await renew_leases(self._database, keys, self._lease)
        except Unavailable as error:
            if self._outage.begin():
                log.warning("lease.renewal_failed", jobs=len(keys), error=error)
            return keys
        self._outage.end()
        for key in keys:
            self._apply(key, held.get(key))
        return [key for key, claim in held.items() if not claim.renewed]

    def _apply(self, key: ClaimKey, held: HeldClaim | None) -> None:
        """Cancel a job that is being canceled, or whose claim is lost (None)."""
        running = self._jobs.get(key)
        if running is None:
            return
        if held is None and running.recording:
            return  # its end was recorded meanwhile
        if held is None:
            metrics.stale_results.inc()
            log.warning("lease.lost", **job_log_fields(running.job))
            running.task.cancel()  # another claim runs the job, or it has ended
        elif held.canceling and not running.canceling:
            running.cancel()
