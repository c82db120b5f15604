"""Why an ended run cannot go on."""

import pytest

from common.jobs.run import StepCount
from common.pipelines.run_state import StepState, StepStatus
from services.gateway.jobs.runs.retry import find_refusal

STATE = {
    "read": StepState(status=StepStatus.SUCCEEDED, total=1, made=1, done=1),
    "none": StepState(status=StepStatus.SUCCEEDED),
    "words": StepState(status=StepStatus.FAILED, total=9, made=4, done=2),
    "check": StepState(status=StepStatus.CANCELED),
}
READ, WORDS = StepCount(made=1, done=1, live=0, last=0), StepCount(made=4, done=2, live=0, last=3)


@pytest.mark.parametrize(
    ("jobs", "code", "step"),
    [
        ({"read": READ, "words": WORDS}, None, None),
        ({"read": READ, "words": WORDS._replace(live=1)}, "steps_not_ended", "words"),
        ({"words": WORDS}, "steps_removed", "read"),
        ({"read": READ, "words": WORDS._replace(made=3)}, "steps_removed", "words"),
        ({"read": READ}, None, None),  # the others can be made again
    ],
)
def test_a_run_goes_on_once_all_has_ended_and_while_its_outputs_are_there(
    jobs: dict[str, StepCount], code: str | None, step: str | None
) -> None:
    refusal = find_refusal(STATE, jobs)
    assert (None if refusal is None else refusal.code) == code
    assert refusal is None or f"step '{step}'" in refusal.detail
