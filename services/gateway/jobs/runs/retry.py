"""Retries runs. A run goes on from what failed, and keeps what succeeded."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple
from uuid import UUID

from common.job_states import TERMINAL, Status
from common.jobs.cancel import LockedJob, lock_job
from common.jobs.retry import retry_jobs
from common.jobs.run import StepCount, begin_run, count_step_jobs, list_failed_steps, save_states
from common.pipelines.run_state import RunState, StepStatus, decode, resume
from common.postgres.database import Connection, Database
from common.rabbitmq.wake_ups import WakeUp
from common.runs.pipelines import Pipelines
from common.runs.progress import RunCarrier


class Refusal(NamedTuple):
    """Why a job cannot be retried."""

    code: Literal["inputs_refused", "step", "steps_not_ended", "steps_removed"]
    detail: str


class RunRetrier:
    def __init__(self, database: Database, carrier: RunCarrier, pipelines: Pipelines) -> None:
        self._database = database
        self._carrier = carrier
        self._pipelines = pipelines

    async def retry(self, tenant: UUID, run: UUID, statuses: Sequence[Status]) -> Sequence[WakeUp] | Refusal | None:
        """Retry a run that has one of these statuses. Return what to announce, or why it cannot go on.

        Return None if it has another status, or was erased.
        """
        async with self._database.transaction() as connection:
            found = await lock_job(connection, run, tenant)
            if found is None or found.job.status not in statuses or found.job.erased_at is not None:
                return None
            state, jobs = decode(found.job.run_state or b"{}"), await count_step_jobs(connection, run)
            return find_refusal(state, jobs) or await self._retry(connection, found, state, jobs)

    async def _retry(
        self, connection: Connection, found: LockedJob, state: RunState, jobs: Mapping[str, StepCount]
    ) -> Sequence[WakeUp]:
        """Queue the jobs again that have not succeeded, and carry on a locked run.

        A run that may read or write files is left to the sweep. A gateway does neither.
        """
        row = found.job
        failed = await list_failed_steps(connection, row.id)
        queued = await retry_jobs(connection, row.tenant_id, [row.id, *failed], [*TERMINAL], None)
        resumed = resume(state, {step: (count.made, count.done) for step, count in jobs.items()})
        await save_states(connection, {row.id: resumed})
        run = await begin_run(connection, row.id)
        assert run is not None, "the run is locked, and waits"
        pipeline = await self._pipelines.find(connection, run.tenant_id, run.model, int(run.version or 0))
        if pipeline.divides:
            carried = await self._carrier.leave(connection, run, found.now)
        else:
            carried = await self._carrier.begin(connection, run, found.now, pipeline)
        return [*(wake_up for job, wake_up in queued.items() if job != row.id), *carried.wake_ups]


def find_refusal(state: RunState, jobs: Mapping[str, StepCount]) -> Refusal | None:
    """Return why an ended run cannot go on: a job still runs, or retention has removed one. Pure."""
    for name, count in jobs.items():
        if count.live:
            return Refusal("steps_not_ended", f"a job of step '{name}' has not ended yet; try again soon")
    for name, step in state.items():
        made = jobs[name].made if name in jobs else 0
        is_whole = name not in jobs or jobs[name].last + 1 == made
        if not is_whole or (step.status is StepStatus.SUCCEEDED and made != step.total):
            text = f"the outputs of step '{name}' were deleted after their retention; submit a new job"
            return Refusal("steps_removed", text)
    return None
