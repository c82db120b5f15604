"""Whether each run of a job had a reason: its model's own doing, or a fault that hit it. Pure."""

from collections.abc import Iterator, Sequence

from tests.acceptance.client import Attempt, Job
from tests.storm.check_outcome import Finding, show
from tests.storm.ledger import Fault
from tests.storm.orders import Order

MARGIN = 2.0  # seconds after a member serves again in which its fault may still be felt
REASONS = {  # kinds of members whose faults explain an attempt that ended with this error
    "worker_lost": ("dispatcher", "postgres"),
    "worker_stopped": ("dispatcher",),
    "triton_unavailable": ("triton",),
    "model_unavailable": ("triton",),
    "model_crashed": ("triton",),
}
OWN = {"raise": "inference_failed", "invalid": "invalid_input", "fail_times": "inference_failed"}
OWN["flaky"] = OWN["fail_times"]


def check_attempts(order: Order, job: Job, attempts: Sequence[Attempt], faults: Sequence[Fault]) -> Iterator[Finding]:
    own = OWN.get(order.kind)
    for attempt in attempts:
        code = attempt.error_code
        if code is not None and not is_asked(attempt, own) and not explains(attempt, faults):
            yield "each run has a reason", f"no {code} without a fault", show(attempts)
        if attempt.status == "returned" and code not in REASONS:
            yield "what is given back", f"one of {', '.join(REASONS)}", show([attempt])
    lives = split(attempts)
    for life in lives:
        counted = [attempt for attempt in life if attempt.status != "returned"]
        if [attempt.attempt for attempt in counted] != list(range(1, len(counted) + 1)):
            yield "attempts count from 1", "1, 2, …", show(life)
        if any(attempt.status in ("succeeded", "canceled") for attempt in life[:-1]):
            yield "one end a life", "nothing after it", show(life)
    failures = sum(is_asked(attempt, own) for attempt in attempts)
    if order.failures and failures > order.failures and not hit(job, faults):
        yield "the model fails as asked", f"{order.failures} times", show(attempts)
    if order.kind == "invalid" and any(len([a for a in life if is_asked(a, own)]) > 1 for life in lives):
        yield "no second run of bad input", "1 a life", show(attempts)
    if job.attempt not in (0, last := len([a for a in (lives or [[]])[-1] if a.status != "returned"])):
        yield "the job's attempt", str(last), f"{job.attempt}: {show(attempts)}"


def is_asked(attempt: Attempt, own: str | None) -> bool:
    """Whether the model failed because the job asked it to; the same code may come of something else."""
    return attempt.error_code is not None and attempt.error_code == own and "as asked" in (attempt.error_message or "")


def split(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """By life: one begins where the numbers of those that count do not go up."""
    lives: list[list[Attempt]] = []
    last = 0
    for attempt in attempts:
        if not lives or attempt.attempt <= last:
            lives.append([])
            last = 0
        lives[-1].append(attempt)
        if attempt.status != "returned":
            last = attempt.attempt
    return lives


def explains(attempt: Attempt, faults: Sequence[Fault]) -> bool:
    """Whether there was a fault during the attempt that may have ended it; of a dispatcher: the one that ran it."""
    began, ended = attempt.started_at.timestamp(), attempt.finished_at.timestamp()
    pid = attempt.worker.split("-")[-2]
    return any(
        fault.began - 0.1 <= ended and began <= fault.ended + MARGIN
        for fault in faults
        if fault.kind in REASONS.get(attempt.error_code or "", ())
        and (fault.kind != "dispatcher" or str(fault.pid) == pid)
    )


def hit(job: Job, faults: Sequence[Fault]) -> bool:
    """Whether Triton died during the job's life, and with it what the model remembered."""
    began, ended = job.created_at.timestamp(), (job.finished_at or job.created_at).timestamp()
    return any(
        fault.kind == "triton" and fault.action != "freeze" and fault.began <= ended and began <= fault.ended
        for fault in faults
    )
