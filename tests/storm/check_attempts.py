"""Checks that each attempt has a cause: the model's own failure, or a fault. Pure."""

from collections.abc import Iterator, Sequence

from tests.storm.check_outcome import Finding, show
from tests.storm.job_requests import JobRequest
from tests.storm.pipelines import StepRequest
from tests.storm.storm_log import Fault, StormLog
from tests.support.api.api_client import Attempt, Job

MARGIN = 2.0  # seconds after a member is ready in which its fault may have effects
# A killed model stays dead until a job meets it and a dispatcher loads it again. Without jobs that takes time.
KILLED_MODEL_SECONDS = 30.0
MET_LATE = ("model_crashed", "model_unavailable")  # by the job that meets it, and by others during the load
CAUSES = {  # kinds of members whose faults explain an attempt that ended with this error
    "worker_lost": ("dispatcher", "postgres"),
    "worker_stopped": ("dispatcher",),
    "triton_unavailable": ("triton",),
    "model_unavailable": ("triton",),
    "model_crashed": ("triton",),
    "timeout": ("triton",),
}
LOST = ("worker_lost", "worker_stopped")
MODEL_ERRORS = {"raise": "inference_failed", "invalid": "invalid_input", "fail_times": "inference_failed"}
MODEL_ERRORS["flaky"] = MODEL_ERRORS["fail_times"]


def check_attempts(
    request: JobRequest | StepRequest, job: Job, attempts: Sequence[Attempt], log: StormLog
) -> Iterator[Finding]:
    faults = log.faults
    model_error = MODEL_ERRORS.get(request.kind)
    for attempt in attempts:
        code = attempt.error_code
        if code is not None and not is_requested_failure(attempt, model_error) and not has_cause(attempt, faults):
            yield "each failed attempt has a cause", f"no {code} without a fault", show(attempts)
        if attempt.status == "returned" and code not in CAUSES:
            yield "returned attempts have a cause", f"one of {', '.join(CAUSES)}", show([attempt])
    parts = split_by_retry(attempts)
    for part in parts:
        counted = [attempt for attempt in part if attempt.status != "returned"]
        if [attempt.attempt for attempt in counted] != list(range(1, len(counted) + 1)):
            yield "attempts count from 1", "1, 2, …", show(part)
        if any(attempt.status in ("succeeded", "canceled") for attempt in part[:-1]):
            yield "one end between retries", "no later attempt", show(part)
    failures = sum(is_requested_failure(attempt, model_error) for attempt in attempts)
    # The model forgets a job that succeeds. A dispatcher that died, or a cancel, may have lost the success.
    lost = sum(attempt.error_code in LOST or attempt.status == "canceled" for attempt in attempts)
    if (
        request.failures
        and failures > request.failures * (log.tritons + lost + count_unloads(job, log))
        and not has_triton_failed(job, faults)
    ):
        yield "the model fails as requested", f"{request.failures} times in each Triton", show(attempts)
    repeated = any(sum(is_requested_failure(each, model_error) for each in part) > 1 for part in parts)
    if request.kind == "invalid" and repeated:
        yield "invalid input is not retried", "one failure between retries", show(attempts)
    if job.attempt not in (0, last := len([a for a in (parts or [[]])[-1] if a.status != "returned"])):
        yield "attempt of the job", str(last), f"{job.attempt}: {show(attempts)}"


def is_requested_failure(attempt: Attempt, model_error: str | None) -> bool:
    """Return whether the model failed because the job requested it. Other failures may have the same code.

    An erased job has no messages.
    """
    error = attempt.error
    return error is not None and error.code == model_error and ("as asked" in error.message or not error.message)


def split_by_retry(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Split the attempts by retries of the client. A part begins where the attempt number does not grow."""
    parts: list[list[Attempt]] = []
    last = 0
    for attempt in attempts:
        if not parts or attempt.attempt <= last:
            parts.append([])
            last = 0
        parts[-1].append(attempt)
        if attempt.status != "returned":
            last = attempt.attempt
    return parts


def has_cause(attempt: Attempt, faults: Sequence[Fault]) -> bool:
    """Return whether a fault during the attempt may have ended it. Of dispatchers, only the one that ran it counts."""
    began, ended = attempt.started_at.timestamp(), attempt.finished_at.timestamp()
    return any(
        fault.began - 0.1 <= ended and began <= fault.ended + choose_margin(fault, attempt)
        for fault in faults
        if fault.kind in CAUSES.get(attempt.error_code or "", ())
        and (fault.kind != "dispatcher" or fault.worker == attempt.worker)
    )


def choose_margin(fault: Fault, attempt: Attempt) -> float:
    """Return for how many seconds after its end a fault may have an effect on an attempt."""
    is_met_late = fault.action == "kill model" and attempt.error_code in MET_LATE
    return KILLED_MODEL_SECONDS if is_met_late else MARGIN


def count_unloads(job: Job, log: StormLog) -> int:
    """Return how often the job's model was unloaded meanwhile. It then forgot what had failed."""
    began, ended = job.created_at.timestamp(), (job.finished_at or job.created_at).timestamp()
    unloads = (each.at for each in log.model_events if (each.event, each.model) == ("model.unloaded", job.model))
    return sum(began <= at <= ended + MARGIN for at in unloads)


def has_triton_failed(job: Job, faults: Sequence[Fault]) -> bool:
    """Return whether Triton had a fault during the job. Its models then lost what they remembered: also after a freeze,
    because a dispatcher loads them again."""
    began, ended = job.created_at.timestamp(), (job.finished_at or job.created_at).timestamp()
    return any(fault.kind == "triton" and fault.began <= ended and began <= fault.ended + MARGIN for fault in faults)
