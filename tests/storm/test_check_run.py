"""The checker reports each broken promise about a run and its steps, and about what was erased, and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from tests.storm.job_requests import JobRequest, make_request
from tests.storm.pipelines import DEFINITIONS, StepRequest, find_needs
from tests.storm.storm_log import Call
from tests.storm.test_check import AT, JOB, KEY, NOW, RUN, Storm
from tests.support.api.api_client import Attempt, Failure, Job, Output, RunStep
from tests.support.api.api_shapes import AttemptFailure

STEPS = {"rows": StepRequest(2), "lines": StepRequest(1), "page": StepRequest(1)}
MODELS = {"rows": "work", "lines": "words", "page": "words"}
EXPECTED: dict[str, list[object]] = {"slept": [5, 7], "words": ["sea"]}
REQUEST = JobRequest(7, "each", "each", {}, EXPECTED, steps=STEPS)
OUTPUTS = [Output("slept", "INT32", [2, 1], [5, 7]), Output("words", "BYTES", [1], ["sea"])]
DONE = {name: RunStep("succeeded", step.elements, step.elements, f"job_{name}_0") for name, step in STEPS.items()}
DONE["rows"] = msgspec.structs.replace(DONE["rows"], job=None)
SUCCEEDED = msgspec.structs.replace(JOB, model="each", kind="pipeline", max_attempts=1, outputs=OUTPUTS, steps=DONE)
BROKE = msgspec.structs.replace(RUN, status="failed", error=AttemptFailure("inference_failed", "raised as asked"))
ERROR = Failure("inference_failed", "raised as asked", True)
STEP_FAILED = Failure("step_failed", "step 'lines' failed: raised as asked", True)


def make_job(step: str, index: int = 0, **changes: object) -> Job:
    shown: dict[str, object] = {
        "id": f"job_{step}_{index}",
        "model": MODELS[step],
        "parent": JOB.id,
        "step": step,
        "outputs": None,
    }
    shown |= {"metadata": {}, "outputs_omitted": "in_lists"}
    return msgspec.structs.replace(JOB, **shown | changes)


def show_step(step: str, status: str, done: int = 0) -> RunStep:
    return msgspec.structs.replace(DONE[step], status=status, done=done)


class RunStorm(Storm):
    """A storm with one run that went well."""

    def __init__(self) -> None:
        super().__init__()
        self.log.submissions[KEY].request = REQUEST
        self.jobs = [make_job("rows", 0), make_job("rows", 1), make_job("lines"), make_job("page")]
        self.attempts: dict[str, list[Attempt]] = {job.id: [RUN] for job in self.jobs}
        self.end(SUCCEEDED)

    def end(self, run: Job) -> None:
        """Let the run end in another way, reported to both receivers."""
        self.change_outcome(run)
        self.state.steps = {run.id: self.jobs}
        self.state.attempts = self.attempts

    def add(self, job: Job, *attempts: Attempt) -> None:
        """Add a job of a step, or replace it."""
        self.jobs[:] = [each for each in self.jobs if each.id != job.id] + [job]
        self.attempts[job.id] = list(attempts)

    def remove(self, *jobs: str) -> None:
        self.jobs[:] = [each for each in self.jobs if each.id not in jobs]

    def show(self, **steps: RunStep) -> None:
        """Change what the run says of its steps."""
        self.end(msgspec.structs.replace(SUCCEEDED, steps=DONE | steps))

    def fail(self, **steps: RunStep) -> None:
        """Let the step `lines` fail, before `page` has begun."""
        self.log.submissions[KEY].request = replace(REQUEST, steps=STEPS | {"lines": StepRequest(kind="raise")})
        failed = make_job("lines", status="failed", error=ERROR, max_attempts=1, outputs_omitted=None)
        self.add(failed, BROKE)
        self.remove("job_page_0")
        canceled = RunStep("canceled", None, 0, None)
        shown = DONE | {"lines": show_step("lines", "failed"), "page": canceled} | steps
        self.end(msgspec.structs.replace(SUCCEEDED, status="failed", error=STEP_FAILED, outputs=None, steps=shown))

    def cancel(self, *statuses: str) -> None:
        """Let a client cancel the run while the jobs of `rows` have these states."""
        self.log.submissions[KEY].cancels.append(Call("cancel", "accepted", 202, AT, AT, "canceled"))
        self.remove("job_page_0", "job_lines_0")
        for index, status in enumerate(statuses):
            self.add(make_job("rows", index, status=status, attempt=0, outputs_omitted=None))
        canceled = RunStep("canceled", None, 0, None)
        shown = {"rows": show_step("rows", "canceled"), "lines": canceled, "page": canceled}
        self.end(msgspec.structs.replace(SUCCEEDED, status="canceled", outputs=None, steps=shown))

    def time_out(self, timeout: float | None, seconds: float) -> None:
        self.log.submissions[KEY].request = replace(REQUEST, timeout=timeout)
        self.cancel("canceled", "canceled")
        self.log.submissions[KEY].cancels.clear()
        ended = self.state.jobs[JOB.id]
        late = Failure("timeout", "", True)
        finished = NOW + timedelta(seconds=seconds)
        self.end(msgspec.structs.replace(ended, status="failed", error=late, finished_at=finished))

    def erase(self, **changes: object) -> None:
        """Erase the run. `changes` are what is left of it."""
        self.log.submissions[KEY].erasures.append(Call("erase", "accepted", 204, AT, AT))
        shown: dict[str, object] = {
            "outputs": None,
            "outputs_omitted": "erased",
            "metadata": {},
            "webhook_status": "none",
        }
        self.state.jobs[JOB.id] = msgspec.structs.replace(SUCCEEDED, **shown | changes)
        for job in [*self.jobs]:
            self.add(msgspec.structs.replace(job, outputs_omitted="erased"), RUN)


def then(*actions: Callable[[RunStorm], object]) -> Callable[[RunStorm], None]:
    """Return what does all of this in order."""

    def do(storm: RunStorm) -> None:
        for action in actions:
            action(storm)

    return do


AGAIN = msgspec.structs.replace(RUN, attempt=2)
OTHER = [*OUTPUTS[1:], msgspec.structs.replace(OUTPUTS[0], data=[7, 5])]
BROKEN: dict[str, tuple[Callable[[RunStorm], object], str]] = {
    "never ends": (lambda storm: storm.end(msgspec.structs.replace(SUCCEEDED, status="processing")), "jobs end"),
    "other order": (
        lambda storm: storm.end(msgspec.structs.replace(SUCCEEDED, outputs=OTHER)),
        "the pipeline's outputs",
    ),
    "no outputs": (lambda storm: storm.end(msgspec.structs.replace(SUCCEEDED, outputs=[])), "the pipeline's outputs"),
    "job made twice": (lambda storm: storm.add(make_job("rows", 2), RUN), "each element has one job"),
    "job of the only element made twice": (
        lambda storm: storm.add(make_job("page", 1), RUN),
        "each element has one job",
    ),
    "job lost": (lambda storm: storm.remove("job_rows_1"), "each element has one job"),
    "job of an unknown step": (
        lambda storm: storm.add(msgspec.structs.replace(make_job("page"), id="job_more_0", step="more")),
        "a run has its steps",
    ),
    "job that never ended": (
        lambda storm: storm.add(make_job("rows", 1, status="processing", outputs_omitted=None)),
        "steps end with their run",
    ),
    "canceled run with a job that waits": (
        lambda storm: storm.cancel("canceled", "queued"),
        "steps end with their run",
    ),
    "canceled for nobody": (
        then(
            lambda storm: storm.cancel("canceled", "canceled"), lambda storm: storm.log.submissions[KEY].cancels.clear()
        ),
        "jobs end as expected",
    ),
    "inference after its success": (
        lambda storm: storm.add(make_job("page", attempt=2), RUN, AGAIN),
        "no inference is repeated after its success",
    ),
    "inference repeated by a retry of the run": (
        lambda storm: storm.add(make_job("page"), RUN, RUN),
        "no inference is repeated after its success",
    ),
    "attempt without a cause": (
        lambda storm: storm.add(make_job("page", attempt=2), BROKE, AGAIN),
        "each failed attempt has a cause",
    ),
    "step that says too much": (
        lambda storm: storm.show(rows=show_step("rows", "succeeded", 1)),
        "steps end as their run",
    ),
    "step that waits for ever": (lambda storm: storm.show(page=show_step("page", "waiting")), "steps end as their run"),
    "failed step of a run that succeeded": (
        lambda storm: storm.show(page=show_step("page", "failed")),
        "steps end as their run",
    ),
    "failed without a failed step": (
        lambda storm: storm.fail(lines=show_step("lines", "canceled")),
        "jobs end as expected",
    ),
    "step begun without what it needs": (
        then(
            lambda storm: storm.fail(page=show_step("page", "canceled")), lambda storm: storm.add(make_job("page"), RUN)
        ),
        "a step begins after those that it needs",
    ),
    "step left to wait": (lambda storm: storm.fail(page=show_step("page", "waiting")), "steps end as their run"),
    "failed before all attempts": (
        then(
            lambda storm: storm.fail(), lambda storm: storm.add(make_job("lines", status="failed", error=ERROR), BROKE)
        ),
        "jobs of steps fail as expected",
    ),
    "too early": (lambda storm: storm.time_out(2.0, 1.9), "jobs end as expected"),
    "deadline of nobody": (lambda storm: storm.time_out(None, 9.0), "jobs end as expected"),
    "two webhooks": (lambda storm: storm.repeat(id="dlv_3", digest=b""), f"webhooks at /callback/{KEY}"),
    "erased with metadata": (lambda storm: storm.erase(metadata={"key": KEY}), "nothing of an erased job is left"),
    "erased with outputs": (lambda storm: storm.erase(outputs=OUTPUTS), "nothing of an erased job is left"),
    "erased with webhooks": (lambda storm: storm.erase(webhook_status="succeeded"), "nothing of an erased job is left"),
    "erased with inputs of a step": (
        then(lambda storm: storm.erase(), lambda storm: storm.state.left.update(job_rows_0="inputs")),
        "nothing of an erased job is left",
    ),
    "erased with outputs of a step": (
        then(lambda storm: storm.erase(), lambda storm: storm.add(make_job("rows"), RUN)),
        "nothing of an erased job is left",
    ),
    "erased with messages": (
        then(lambda storm: storm.erase(), lambda storm: storm.attempts.update(job_page_0=[BROKE])),
        "nothing of an erased job is left",
    ),
}
KEPT: dict[str, Callable[[RunStorm], object]] = {
    "success": lambda _: None,
    "failed step": lambda storm: storm.fail(),
    "canceled": lambda storm: storm.cancel("canceled", "canceled"),
    "canceled before its first job": lambda storm: storm.cancel("canceled"),
    "deadline": lambda storm: storm.time_out(2.0, 2.1),
    "erased": lambda storm: storm.erase(),
}


@pytest.mark.parametrize("happen", KEPT.values(), ids=KEPT)
def test_checker_accepts_runs_without_violations(happen: Callable[[RunStorm], object]) -> None:
    storm = RunStorm()
    happen(storm)
    assert storm.violated_rules == set()


@pytest.mark.parametrize(("break_promise", "rule"), BROKEN.values(), ids=BROKEN)
def test_checker_finds_each_broken_promise(break_promise: Callable[[RunStorm], object], rule: str) -> None:
    storm = RunStorm()
    break_promise(storm)
    assert rule in storm.violated_rules


def test_requests_have_the_steps_of_their_pipelines() -> None:
    runs = [request for number in range(2000) if (request := make_request(7, number)).is_run]
    assert {run.model for run in runs} == {*DEFINITIONS}
    for run in runs:
        assert run.steps.keys() == find_needs(run.model).keys()
        assert (run.expected is None) == (run.error is not None)
        body = run.build_body("7.0", "")
        assert body["inputs"].keys() == DEFINITIONS[run.model]["inputs"].keys()  # type: ignore[attr-defined]
    assert not any(make_request(7, number, runs=False).is_run for number in range(2000))
