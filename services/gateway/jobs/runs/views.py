"""Shows the steps of runs."""

import msgspec
from msgspec import UNSET, UnsetType

from common import ids
from common.jobs.job import Job
from common.jobs.run import list_step_jobs
from common.pipelines.run_state import StepState, StepStatus, decode
from common.postgres.database import Database
from common.runs.pipelines import Pipelines
from common.views.job_parts import RunStep


class RunViewer:
    def __init__(self, database: Database, pipelines: Pipelines) -> None:
        self._database = database
        self._pipelines = pipelines

    async def view_steps(self, row: Job) -> dict[str, RunStep] | UnsetType:
        """Return the steps of a run. UNSET: the job is no run, or only a later release can read it."""
        if row.run_state is None:
            return UNSET
        try:
            state = decode(row.run_state)
            pipeline = await self._pipelines.find(self._database, row.tenant_id, row.model, int(row.version or 0))
        except msgspec.DecodeError:
            return UNSET
        single = [name for name, step in pipeline.definition.steps.items() if step.for_each is None]
        jobs = await list_step_jobs(self._database, row.id, single)
        shown = {name: ids.encode(ids.Kind.JOB, job) for name, job in jobs.items()}
        return {name: view_step(step, shown.get(name)) for name, step in state.items()}


def view_step(step: StepState, job: str | None) -> RunStep:
    has_begun = step.total > 0 or step.status is StepStatus.SUCCEEDED
    return RunStep(step.status, step.total if has_begun else None, step.done, job)
