"""Makes jobs claimable that are due, ends expired jobs and has lost ones rescued."""

import asyncio

from common.jobs.expire import find_expired
from common.jobs.promote import promote_jobs, promote_suspect
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.failures.retry_policy import MAX_INTERRUPTIONS, PROBATION_SECONDS
from services.dispatcher.maintenance.job_ends import JobEnds
from services.dispatcher.maintenance.lapsed_leases import LeaseGrace
from services.dispatcher.maintenance.rescuer import Rescuer
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.results.store import NotStored

BATCH = 200

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
        self._ends = JobEnds()

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
            self._ends.cancel()

    async def sweep(self) -> bool:
        """Handle one batch of each kind. Return whether any batch was full."""
        promoted = await promote_jobs(self._database, BATCH)
        self._wake_ups.announce(promoted)
        self._wake_ups.announce(await promote_suspect(self._database, PROBATION_SECONDS, MAX_INTERRUPTIONS))
        self._grace.note_write()  # a read-only server would have refused the write
        rescued = await self._rescuer.rescue(self._ends, BATCH)
        expired = self._ends.leave_out(await find_expired(self._database, BATCH))
        await self._ends.end_each(expired, self._recorder.expire)
        return max(len(promoted), rescued, len(expired)) >= BATCH
