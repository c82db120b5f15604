"""Ends jobs of steps, and carries their runs on in the same transaction."""

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from common.job_states import Status
from common.jobs.end import JobEnd, end_jobs
from common.jobs.job import WaitingJob
from common.jobs.run import Run, begin_run, lock_free_runs, lock_runs, schedule_run
from common.jobs.take_results import TakenResult, take_results
from common.postgres.database import Connection, Database, Settled
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.wake_ups import WakeUp
from common.runs.pipelines import Pipeline, Pipelines
from common.runs.progress import Carried, RunCarrier, StepEnd
from common.telemetry.metrics import PIPELINES, jobs_ended
from services.dispatcher.results.unsettled_keys import UnsettledKeys


class RunProgress:
    def __init__(
        self,
        database: Database,
        carrier: RunCarrier,
        changes: ChangePublisher,
        unsettled: UnsettledKeys | None = None,
    ) -> None:
        """`unsettled` gets the keys of jobs of steps that were made, and wait for twins."""
        self._unsettled = unsettled or UnsettledKeys()
        self._database = database
        self._carrier = carrier
        self._changes = changes
        self._pipelines = Pipelines()

    async def end_steps(self, ends: Sequence[JobEnd]) -> tuple[Collection[UUID], Sequence[WakeUp]]:
        """Return the ids of the events whose ends were recorded, and what to announce.

        A run is locked before the jobs of its steps. One that has ended takes no more of their ends.
        """
        async with self._carrier.transaction() as connection:
            runs = await lock_runs(connection, list_runs(ends))
            recorded, wake_ups = await self._end(connection, runs, ends)
        self._changes.notify(run.id for run, _ in runs)
        return recorded, wake_ups

    async def end_light(self, ends: Sequence[JobEnd]) -> tuple[Sequence[JobEnd], Collection[UUID], Sequence[WakeUp]]:
        """Do the same for the ends of light runs, and return these ends, too. It waits for no lock.

        A run is light if nobody has locked it, and if its pipeline has no `for_each`.
        """
        async with self._database.transaction() as connection:
            locked = await lock_free_runs(connection, list_runs(ends))
            runs = [(run, now) for run, now in locked if await self._is_light(connection, run)]
            light = {run.id for run, _ in runs}
            taken = [end for end in ends if end.parent in light]
            recorded, wake_ups = await self._end(connection, runs, taken) if taken else ((), ())
        self._changes.notify(light)
        return taken, recorded, wake_ups

    async def _is_light(self, connection: Connection, run: Run) -> bool:
        try:
            return not (await self._find_pipeline(connection, run)).divides
        except msgspec.DecodeError:  # of a later release: it fails alone
            return False

    async def _end(
        self, connection: Connection, runs: Sequence[tuple[Run, datetime]], ends: Sequence[JobEnd]
    ) -> tuple[Collection[UUID], Sequence[WakeUp]]:
        """End jobs of steps, and carry on their runs, which are locked."""
        wake_ups: list[WakeUp] = []
        recorded = await end_jobs(Settled(connection), ends)
        for run, now in runs:
            mine = [to_step_end(end) for end in ends if end.parent == run.id and end.event.id in recorded]
            if mine:
                pipeline = await self._find_pipeline(connection, run)
                carried = await self._carrier.carry_on(connection, run, now, pipeline, mine)
                wake_ups += self._note(carried).wake_ups
        return recorded, wake_ups

    async def take_results(
        self, run_id: UUID, jobs: Sequence[WaitingJob], ends: Sequence[TakenResult]
    ) -> tuple[set[UUID], Sequence[WakeUp]]:
        """End jobs of a run's steps with the results of their twins. Return those that ended, and what to announce.

        A run that has ended takes no more of their ends.
        """
        taken: set[UUID] = set()
        wake_ups: Sequence[WakeUp] = ()
        async with self._carrier.transaction() as connection:
            for run, now in await lock_runs(connection, {run_id}):
                taken = await take_results(Settled(connection), ends)
                mine = [StepEnd(job.id, job.step or "", Status.SUCCEEDED, None, 0.0) for job in jobs if job.id in taken]
                if mine:
                    pipeline = await self._find_pipeline(connection, run)
                    carried = await self._carrier.carry_on(connection, run, now, pipeline, mine)
                    wake_ups = self._note(carried).wake_ups
        self._changes.notify([run_id])
        return taken, wake_ups

    async def carry_due(self, run_id: UUID) -> Sequence[WakeUp]:
        """Begin a run that was left to the sweep, or carry it on, if its time has come. Return what to announce.

        Raises StoreUnavailable while the object store is away, if the run needs it.
        """
        async with self._carrier.transaction() as connection:
            for run, now in await lock_runs(Settled(connection), {run_id}):
                if run.scheduled_at is not None and run.scheduled_at <= now:
                    return (await self._carry_due(connection, run, now)).wake_ups
        return []

    async def _carry_due(self, connection: Connection, run: Run, now: datetime) -> Carried:
        pipeline = await self._find_pipeline(connection, run)
        if (begun := await begin_run(connection, run.id)) is not None:
            return self._note(await self._carrier.begin(connection, begun, now, pipeline))
        await schedule_run(connection, run.id, None)
        return self._note(await self._carrier.carry_on(connection, run, now, pipeline))

    async def end_overdue(self, run_id: UUID) -> Sequence[WakeUp]:
        """Fail a run whose deadline has passed. Return what to announce."""
        async with self._database.transaction() as connection:
            for run, now in await lock_runs(Settled(connection), {run_id}):
                if run.lease_until is not None and run.lease_until < now:  # it was not retried in the meantime
                    return self._note(await self._carrier.end_overdue(connection, run, now)).wake_ups
        return []

    def _note(self, carried: Carried) -> Carried:
        """Count the end of a run. Note the keys of its steps' jobs: a sweep finds those of a commit that fails."""
        if carried.status is not None:
            jobs_ended.labels(PIPELINES, carried.status).inc()
        self._unsettled.note(carried.keys)
        return carried

    async def _find_pipeline(self, connection: Connection, run: Run) -> Pipeline:
        return await self._pipelines.find(connection, run.tenant_id, run.model, int(run.version or 0))


def list_runs(ends: Sequence[JobEnd]) -> set[UUID]:
    return {end.parent for end in ends if end.parent is not None}


def to_step_end(end: JobEnd) -> StepEnd:
    assert end.step is not None, "it is the end of a step"
    return StepEnd(end.id, end.step, end.status, end.failure, end.inference_ms or 0.0)
