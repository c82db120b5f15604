"""How steps of runs are shown."""

import msgspec
import pytest

from common import ids
from common.pipelines.run_state import StepState, StepStatus
from common.views.job import JobUrls, list_job, view_job
from common.views.job_parts import RunStep
from services.gateway.jobs.runs.views import view_step
from tests.unit.gateway.samples import ROW


@pytest.mark.parametrize(
    ("step", "total"),
    [
        (StepState(), None),
        (StepState(status=StepStatus.RUNNING, total=3, made=2, done=1), 3),
        (StepState(status=StepStatus.SUCCEEDED), 0),  # a for_each of no elements
        (StepState(status=StepStatus.CANCELED), None),
        (StepState(status=StepStatus.CANCELED, total=3, made=3, done=1), 3),
    ],
)
def test_the_total_is_unknown_until_a_step_begins(step: StepState, total: int | None) -> None:
    assert view_step(step, "job_1") == RunStep(step.status, total, step.done, "job_1")


def test_only_runs_and_jobs_of_steps_have_fields_of_their_own() -> None:
    own = {"kind", "steps", "parent", "step"}
    plain, run = view_job(ROW, JobUrls()), list_job(msgspec.structs.replace(ROW, run_state=b"{}"), JobUrls())
    step = view_job(msgspec.structs.replace(ROW, parent=ids.new(), step="read"), JobUrls())
    shown = [own & msgspec.json.decode(msgspec.json.encode(view)).keys() for view in (plain, run, step)]
    assert shown == [set(), {"kind"}, {"parent", "step"}]
