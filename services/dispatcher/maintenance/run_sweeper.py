"""Begins runs whose time has come, and ends those that take too long."""

import asyncio

from common.jobs.run import find_due_runs, find_overdue_runs
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.results.run_progress import RunProgress

BATCH = 100

log = Log("runs")


class RunSweeper:
    def __init__(self, database: Database, progress: RunProgress, wake_ups: WakeUpPublisher, interval: float) -> None:
        """`interval` is in seconds."""
        self._database = database
        self._progress = progress
        self._wake_ups = wake_ups
        self._interval = interval
        self._outage = Outage()

    async def run(self) -> None:
        """Sweep at intervals, and again at once after a full batch, until cancelled."""
        while True:
            full = False
            with self._outage.tolerate("runs.database_unavailable", log):
                full = await self.sweep()
            if not full:
                await asyncio.sleep(self._interval)

    async def sweep(self) -> bool:
        """Handle one batch of each kind. Return whether one was full."""
        due, overdue = await find_due_runs(self._database, BATCH), await find_overdue_runs(self._database, BATCH)
        for run in due:
            self._wake_ups.announce(await self._progress.begin(run))
        for run in overdue:
            self._wake_ups.announce(await self._progress.end_overdue(run))
        return max(len(due), len(overdue)) >= BATCH
