"""Whether a job ended as it must, with what its model must answer. Pure."""

from collections.abc import Iterator, Sequence

from tests.acceptance.client import TERMINAL, Attempt, Job
from tests.storm.ledger import Try

Finding = tuple[str, str, str]  # the rule, what was expected, what was seen


def check_outcome(attempt: Try, job: Job, attempts: Sequence[Attempt]) -> Iterator[Finding]:
    if job.status not in TERMINAL:
        yield "ends", "a terminal state", f"{job.status}, attempt {job.attempt}"
    elif (reason := find_reason_against(attempt, job)) is not None:
        yield "ends as it must", reason, describe(job, attempts)
    if job.status == "succeeded" and read_answer(job, attempt.order.output) != attempt.order.expected:
        yield "the model's answer", repr(attempt.order.expected), repr(job.outputs)
    if job.status != "succeeded" and job.outputs is not None:
        yield "no answer without success", "no outputs", repr(job.outputs)


def find_reason_against(attempt: Try, job: Job) -> str | None:
    """What should have been instead of this terminal state; None where it is fine."""
    order = attempt.order
    match job.status:
        case "succeeded":
            if order.expected is None:
                return f"failed with {order.error}"
            return None if not was_canceled_at_once(attempt) else "canceled, as its cancellation was answered"
        case "canceled":
            return None if may_be_canceled(attempt) else "anything but canceled: nobody asked for it"
        case "expired":
            return None if order.expires_in is not None else "anything but expired: it had all the time"
        case "failed" if order.kind == "invalid" and job.error and job.error.code == order.error:
            return None
        case "failed" if job.attempt >= order.max_attempts and job.error and job.error.retryable:
            return None  # its attempts are used up; whether each of them had a reason is check_attempts.py's
        case _:
            return f"{'success' if order.expected else order.error} or all {order.max_attempts} attempts used up"


def was_canceled_at_once(attempt: Try) -> bool:
    """Whether the last word on it was that it is canceled."""
    return not attempt.retries and any(call.detail == "canceled" for call in attempt.cancels if call.status == 202)


def may_be_canceled(attempt: Try) -> bool:
    """Whether a cancellation may have hit its last life."""
    revived = [call.began for call in attempt.retries if call.outcome == "accepted"]
    return any(
        call.outcome == "unknown" or (call.outcome == "accepted" and (not revived or call.ended > revived[-1]))
        for call in attempt.cancels
    )


def read_answer(job: Job, name: str) -> list[object]:
    """The data under that name, of all responses in turn."""
    return [value for output in job.outputs or [] if output.name == name for value in output.data]


def describe(job: Job, attempts: Sequence[Attempt]) -> str:
    error = f"{job.error.code}: {job.error.message}" if job.error else "no error"
    return f"{job.status} ({error}), attempt {job.attempt} of {job.max_attempts}, attempts {show(attempts)}"


def show(attempts: Sequence[Attempt]) -> str:
    return ", ".join(
        f"{each.attempt}:{each.status}:{each.error_code}@{each.started_at:%H:%M:%S} {each.error_message or ''}".strip()
        for each in attempts
    )
