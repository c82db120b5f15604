"""Checks that a job ended as expected, with the expected output of its model. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from tests.storm.storm_log import Submission
from tests.support.api.api_client import TERMINAL, Attempt, Job

Finding = tuple[str, str, str]  # the rule, what was expected, what was seen


def check_outcome(submission: Submission, job: Job, attempts: Sequence[Attempt]) -> Iterator[Finding]:
    if job.status not in TERMINAL:
        yield "jobs end", "a terminal state", f"{job.status}, attempt {job.attempt}"
    elif (mismatch := find_mismatch(submission, job)) is not None:
        yield "jobs end as expected", mismatch, describe(job, attempts)
    expected = submission.request.expected
    if job.status == "succeeded" and read_outputs(job, expected or {}) != expected:
        yield "the model's output", repr(expected), repr(job.outputs)
    if job.status != "succeeded" and job.outputs is not None:
        yield "no output without success", "no outputs", repr(job.outputs)


def find_mismatch(submission: Submission, job: Job) -> str | None:
    """Return what was expected instead of this terminal state, or None if it is right."""
    request = submission.request
    match job.status:
        case "succeeded":
            if request.expected is None:
                return f"failed with {request.error}"
            return "canceled, as its cancel was answered" if was_canceled_at_once(submission) else None
        case "canceled":
            return None if may_be_canceled(submission) else "not canceled: no client canceled it"
        case "expired":
            return None if request.expires_in is not None else "not expired: it had no expiry"
        case "failed" if request.kind == "invalid" and job.error and job.error.code == request.error:
            return None
        case "failed" if job.attempt >= request.max_attempts and job.error and job.error.retryable:
            return None  # all attempts are used; check_attempts.py checks their causes
        case _:
            return f"{'success' if request.expected else request.error} or all {request.max_attempts} attempts used"


def was_canceled_at_once(submission: Submission) -> bool:
    """Return whether a response said that the job is canceled, and no retry followed."""
    accepted = [call for call in submission.cancels if call.status == 202]
    return not submission.retries and any(call.detail == "canceled" for call in accepted)


def may_be_canceled(submission: Submission) -> bool:
    """Return whether a cancellation may have ended the job after its last retry."""
    retried = [call.began for call in submission.retries if call.outcome == "accepted"]
    return any(
        call.outcome == "unknown" or (call.outcome == "accepted" and (not retried or call.ended > retried[-1]))
        for call in submission.cancels
    )


def read_outputs(job: Job, names: Iterable[str]) -> dict[str, list[object]]:
    """Return the data under these names, each from all responses in order."""
    return {
        name: [value for output in job.outputs or [] if output.name == name for value in output.data or []]
        for name in names
    }


def describe(job: Job, attempts: Sequence[Attempt]) -> str:
    error = f"{job.error.code}: {job.error.message}" if job.error else "no error"
    return f"{job.status} ({error}), attempt {job.attempt} of {job.max_attempts}, attempts {show(attempts)}"


def show(attempts: Sequence[Attempt]) -> str:
    return ", ".join(
        f"{each.attempt}:{each.status}@{each.started_at:%H:%M:%S} {each.error or ''}".strip() for each in attempts
    )
