"""Ends jobs of steps, and carries their runs on in the same transaction."""

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from common.jobs.end import JobEnd, end_jobs
from common.jobs.run import Run, begin_run, lock_free_runs, lock_runs
from common.postgres.database import Connection, Database, Settled
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.wake_ups import WakeUp
from common.runs.pipelines import Pipelines
from common.runs.progress import Carried, RunCarrier, StepEnd
from common.telemetry.metrics import jobs_ended


class RunProgress:
    def __init__(self, database: Database, carrier: RunCarrier, changes: ChangePublisher) -> None:
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

        A run is light if nobody has locked it, and if no step of it runs for each of several elements.
        """
        async with self._carrier.transaction() as connection:
            locked = await lock_free_runs(connection, list_runs(ends))
            runs = [(run, now) for run, now in locked if max(step.total for step in run.state.values()) <= 1]
            light = {run.id for run, _ in runs}
            taken = [end for end in ends if end.parent in light]
            recorded, wake_ups = await self._end(connection, runs, taken) if taken else ((), ())
        self._changes.notify(light)
        return taken, recorded, wake_ups

    async def _end(
        self, connection: Connection, runs: Sequence[tuple[Run, datetime]], ends: Sequence[JobEnd]
    ) -> tuple[Collection[UUID], Sequence[WakeUp]]:
        """End jobs of steps, and carry on their runs, which are locked."""
        wake_ups: list[WakeUp] = []
        recorded = await end_jobs(Settled(connection), ends)
        for run, now in runs:
            mine = [to_step_end(end) for end in ends if end.parent == run.id and end.event.id in recorded]
            if mine:
                wake_ups += (await self._carry_on(connection, run, now, mine)).wake_ups
        return recorded, wake_ups

    async def begin(self, run_id: UUID) -> Sequence[WakeUp]:
        """Begin a run that waits for its time. Return what to announce."""
        async with self._carrier.transaction() as connection:
            for locked, now in await lock_runs(connection, {run_id}):
                run = await begin_run(connection, locked.id)
                if run is not None:
                    return (await self._carry_on(connection, run, now, [])).wake_ups
        return []

    async def end_overdue(self, run_id: UUID) -> Sequence[WakeUp]:
        """Fail a run whose deadline has passed. Return what to announce."""
        async with self._database.transaction() as connection:
            for run, now in await lock_runs(connection, {run_id}):
                if run.lease_until is not None and run.lease_until < now:  # it was not retried in the meantime
                    return (await self._carrier.end_overdue(connection, run, now)).wake_ups
        return []

    async def _carry_on(self, connection: Connection, run: Run, now: datetime, ends: Sequence[StepEnd]) -> Carried:
        version = int(run.version or 0)
        pipeline = await self._pipelines.find(connection, run.tenant_id, run.model, version)
        carried = await self._carrier.carry_on(connection, run, now, pipeline, ends)
        if carried.status is not None:
            jobs_ended.labels(run.model, carried.status).inc()
        return carried


def list_runs(ends: Sequence[JobEnd]) -> set[UUID]:
    return {end.parent for end in ends if end.parent is not None}


def to_step_end(end: JobEnd) -> StepEnd:
    assert end.step is not None, "it is the end of a step"
    return StepEnd(end.id, end.step, end.status, end.failure, end.inference_ms or 0.0)
