"""Begins runs whose time has come, carries on those that were left to it, and ends those that take too long."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from common import ids
from common.errors import DatabaseUnavailable, StatementTimeout
from common.jobs.run import find_due_runs, find_overdue_runs, schedule_run
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUp, WakeUpPublisher
from common.runs.progress import AGAIN_SECONDS
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.results.run_progress import RunProgress

BATCH = 100
RUNS = 2  # of each kind at a time: one that is locked, or waits for the object store, holds up few others

log = Log("runs")


class RunSweeper:
    def __init__(self, database: Database, progress: RunProgress, wake_ups: WakeUpPublisher, interval: float) -> None:
        """`interval` is in seconds."""
        self._database = database
        self._progress = progress
        self._wake_ups = wake_ups
        self._interval = interval

    async def run(self) -> None:
        """Sweep until cancelled. Deadlines do not wait for runs that begin."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(self.carry_due))
            group.create_task(self._repeat(self.end_overdue))

    async def _repeat(self, sweep: Callable[[], Awaitable[bool]]) -> None:
        """Sweep at intervals, and again at once after a full batch."""
        outage = Outage()
        while True:
            full = False
            with outage.tolerate("runs.database_unavailable", log):
                full = await sweep()
            if not full:
                await asyncio.sleep(self._interval)

    async def carry_due(self) -> bool:
        """Begin or carry on a batch of due runs. Return whether it was full. A run that fails is due again later."""
        due = await find_due_runs(self._database, BATCH)
        for run in await self._handle(due, self._progress.carry_due):
            await schedule_run(self._database, run, AGAIN_SECONDS)
        return len(due) == BATCH

    async def end_overdue(self) -> bool:
        """End a batch of overdue runs. Return whether it was full, and none failed."""
        overdue = await find_overdue_runs(self._database, BATCH)
        return not await self._handle(overdue, self._progress.end_overdue) and len(overdue) == BATCH

    async def _handle(self, runs: Sequence[UUID], act: Callable[[UUID], Awaitable[Sequence[WakeUp]]]) -> list[UUID]:
        """Act on runs. Return those that failed. Raises DatabaseUnavailable, after it has tried all of them."""
        turns = asyncio.Semaphore(RUNS)
        failed: list[UUID] = []

        async def handle(run: UUID) -> None:
            async with turns:
                try:
                    self._wake_ups.announce(await act(run))
                except Exception as error:  # whatever is wrong with one run must not hold up the others
                    if isinstance(error, DatabaseUnavailable) and not isinstance(error, StatementTimeout):
                        raise
                    log.warning("run.not_carried_on", job_id=ids.encode(ids.Kind.JOB, run), error=error)
                    failed.append(run)

        outcomes = await asyncio.gather(*map(handle, runs), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return failed
