"""Checks a run, and the jobs of its steps. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from tests.storm.api_state import ApiState
from tests.storm.check_attempts import check_attempts
from tests.storm.check_outcome import Finding, may_be_canceled, read_outputs, show, was_canceled_at_once
from tests.storm.pipelines import StepRequest, find_needs
from tests.storm.storm_log import StormLog, Submission
from tests.support.api.api_client import TERMINAL, Attempt, Job, RunStep

PERMANENT = {"invalid": "invalid_input"}  # errors that are not retried, by the kind of a step


def check_run(submission: Submission, run: Job, state: ApiState, log: StormLog) -> Iterator[tuple[str, str, str, str]]:
    """Yield what is wrong with a run, and with the jobs of its steps, by their ids."""
    if run.status not in TERMINAL:
        yield run.id, "jobs end", "a terminal state", f"{run.status}: {describe(run)}"
        return
    jobs: dict[str, list[Job]] = {}
    for job in state.steps.get(run.id, []):
        jobs.setdefault(job.step or "", []).append(job)
    for rule, expected, seen in (*check_end(submission, run, jobs), *check_steps(submission, run, jobs)):
        yield run.id, rule, expected, seen
    for step, members in jobs.items():
        request = submission.request.steps.get(step, StepRequest())
        for job in members:
            attempts = state.attempts.get(job.id, [])
            own = check_attempts(request, job, attempts, log)
            for rule, expected, seen in (*own, *check_step_job(request, job, attempts)):
                yield job.id, rule, expected, seen


def check_end(submission: Submission, run: Job, jobs: Mapping[str, Sequence[Job]]) -> Iterator[Finding]:
    """Check how a run ended, and what it made."""
    request = submission.request
    if (mismatch := find_mismatch(submission, run, jobs)) is not None:
        yield "jobs end as expected", mismatch, describe(run)
    if run.status == "succeeded":
        made = read_outputs(run, [output.name for output in run.outputs or []])
        if made != request.expected:
            yield "the pipeline's outputs", repr(request.expected), repr(made)
    elif run.outputs is not None:
        yield "no output without success", "no outputs", repr(run.outputs)


def find_mismatch(submission: Submission, run: Job, jobs: Mapping[str, Sequence[Job]]) -> str | None:
    """Return what was expected instead of this end of a run, or None if it is right."""
    request, code = submission.request, run.error.code if run.error else None
    match run.status:
        case "succeeded":
            if request.expected is None:
                return f"failed with {request.error}"
            return "canceled, as its cancel was answered" if was_canceled_at_once(submission) else None
        case "canceled":
            return None if may_be_canceled(submission) else "not canceled: no client canceled it"
        case "failed" if code == "timeout":
            is_due = request.timeout is not None and measure(run) >= request.timeout
            return None if is_due else "no timeout before its deadline"
        case "failed" if code == "step_failed":
            failed = [step for step, shown in (run.steps or {}).items() if shown.status == "failed"]
            if len(failed) == 1 and any(job.status == "failed" for job in jobs.get(failed[0], [])):
                return None
            return "one failed step, which has a failed job"
        case _:
            return "success, a failed step, or a cancel that a client asked for"


def measure(run: Job) -> float:
    """Return for how many seconds an ended run ran since its last start."""
    assert run.started_at is not None
    assert run.finished_at is not None
    return (run.finished_at - run.started_at).total_seconds()


def check_steps(submission: Submission, run: Job, jobs: Mapping[str, Sequence[Job]]) -> Iterator[Finding]:
    """Check what a run says of its steps, beside the jobs that they have."""
    shown, requests = run.steps or {}, submission.request.steps
    if shown.keys() != requests.keys() or not jobs.keys() <= requests.keys():
        yield "a run has its steps", ", ".join(requests), f"{', '.join(shown)}, with jobs of {', '.join(jobs)}"
        return
    needs = find_needs(submission.request.model)
    for name, request in requests.items():
        step, members = shown[name], jobs.get(name, [])
        if live := [job.id for job in members if job.status not in TERMINAL]:
            yield "steps end with their run", "no job that waits or runs", f"{name}: {', '.join(live)}"
        if mismatch := find_step_mismatch(run, step, request, members):
            yield "steps end as their run", mismatch, f"{name}: {step}, {len(members)} jobs"
        elements = len(members)
        if elements > request.elements or (step.status == "succeeded" and elements != request.elements):
            yield "each element has one job", f"{name}: {request.elements}", str(elements)
        if members and any(shown[other].status != "succeeded" for other in needs[name]):
            yield "a step begins after those that it needs", f"no job of {name}", describe(run)


def find_step_mismatch(run: Job, step: RunStep, request: StepRequest, members: Sequence[Job]) -> str | None:
    """Return what was expected instead of this state of a step, or None if it is right."""
    done = sum(job.status == "succeeded" for job in members)
    allowed = {"succeeded": {"succeeded"}, "failed": {"succeeded", "failed", "canceled"}}
    if step.status not in allowed.get(run.status, {"succeeded", "canceled"}):
        return f"no step that is {step.status} when the run is {run.status}"
    if step.status == "succeeded" and not done == step.done == request.elements:
        return f"{request.elements} jobs that have succeeded"
    if step.done > done:
        return f"{step.done} jobs that have succeeded"
    if step.total != (request.elements if members else None):
        return f"a total of {request.elements} once it has jobs"
    if step.job is not None and [step.job] != [job.id for job in members]:
        return "its job"
    return None


def check_step_job(request: StepRequest, job: Job, attempts: Sequence[Attempt]) -> Iterator[Finding]:
    """Check the job of a step beyond what holds for all jobs."""
    succeeded = [place for place, attempt in enumerate(attempts, 1) if attempt.status == "succeeded"]
    if succeeded != [len(attempts)] * (job.status == "succeeded"):
        yield (
            "no inference is repeated after its success",
            f"one success at the end, as it {job.status}",
            show(attempts),
        )
    if job.status == "failed" and job.error is not None:
        is_permanent = job.error.code == PERMANENT.get(request.kind)
        if not is_permanent and not (job.error.retryable and job.attempt >= job.max_attempts):
            seen = f"{job.error.code}, attempt {job.attempt} of {job.max_attempts}"
            yield "jobs of steps fail as expected", "all attempts used, or a permanent failure", seen
    if job.status == "expired":
        yield "jobs of steps do not expire", "another end", "expired"


def describe(run: Job) -> str:
    error = f"{run.error.code}: {run.error.message}" if run.error else "no error"
    steps = ", ".join(f"{name} {step.status} {step.done}/{step.total}" for name, step in (run.steps or {}).items())
    return f"{run.status} ({error}), steps: {steps}"
