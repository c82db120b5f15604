"""The report at the end of a storm."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from tests.storm.api_state import ApiState
from tests.storm.check import Violation
from tests.storm.check_liveness import list_before_and_after
from tests.storm.storm_log import StormLog

MAX_SHOWN = 40  # most violations to print


def write(log: StormLog, state: ApiState, violations: Sequence[Violation]) -> Iterator[str]:
    yield from tabulate("jobs", Counter((job.model, job.status) for job in state.jobs.values()))
    yield from tabulate(
        "jobs of steps", Counter((step.model, step.status) for steps in state.steps.values() for step in steps)
    )
    yield from tabulate("faults", Counter((fault.kind, fault.action) for fault in log.faults))
    yield from tabulate("submits", Counter(("calls", each.call.outcome) for each in log.submissions.values()))
    for name, number in count(log, state).items():
        yield f"{name:44}{number:8}"
    if log.faults:
        for name, seconds in zip(("before the faults", "after them"), list_before_and_after(log), strict=True):
            shown = f"{1000 * median(seconds):8.0f}" if seconds else f"{'none':>8}"
            yield f"{f'ms from submit to webhook {name} (p50)':44}{shown}"
        yield f"{'seconds until the backlog was worked off':44}{log.settled_at - log.last_fault_ended:8.1f}"
    yield f"{'seconds until all jobs had ended':44}{state.completion_seconds:8.1f}"
    yield from (f"note: {text}" for text in (*log.crashes, *log.anomalies))
    yield f"{'violations':44}{len(violations):8}"
    for found in violations[:MAX_SHOWN]:
        yield f"VIOLATION {found.rule}: {found.subject}\n  expected {found.expected}\n  seen     {found.seen}"
    if len(violations) > MAX_SHOWN:
        yield f"… and {len(violations) - MAX_SHOWN} more: {dict(Counter(found.rule for found in violations))}"


def count(log: StormLog, state: ApiState) -> dict[str, int]:
    submissions = log.submissions.values()
    attempts = [each for found in state.attempts.values() for each in found]
    without_response = [each for each in submissions if each.job_id and each.call.outcome == "unknown"]
    ids = {delivery.id for delivery in log.deliveries}
    returned = Counter(each.error_code for each in attempts if each.status == "returned")
    lost = [each for each in attempts if each.error_code == "worker_lost"]
    numbers = {
        "jobs from submits without a response": len([each for each in without_response if each.call.status is None]),
        "jobs from submits with status 503": len([each for each in without_response if each.call.status is not None]),
        "cancels accepted": sum(call.outcome == "accepted" for each in submissions for call in each.cancels),
        "retries accepted": sum(call.outcome == "accepted" for each in submissions for call in each.retries),
        "erasures accepted": len(log.list_erased()),
        "webhooks": len(ids),
        "  sent again after a failure": len(log.deliveries) - len(ids) - (repeated := count_repeated(log)),
        "  duplicates: sent again after acceptance": repeated,
        "attempts": len(attempts),
        "  lost with their worker": len(lost),
    }
    return numbers | {f"  returned: {code}": number for code, number in sorted(returned.items(), key=str)}


def count_repeated(log: StormLog) -> int:
    accepted: set[str] = set()
    repeated = 0
    for delivery in log.deliveries:
        repeated += delivery.id in accepted
        if delivery.was_accepted:
            accepted.add(delivery.id)
    return repeated


def tabulate(name: str, counts: Counter[tuple[str, str]]) -> Iterator[str]:
    """Yield a table of counted pairs, one row for each first value."""
    columns = sorted({column for _, column in counts})
    yield f"{name:16}" + "".join(f"{column:>14}" for column in columns)
    for row in sorted({row for row, _ in counts}):
        yield f"  {row:14}" + "".join(f"{counts[row, column] or '':>14}" for column in columns)
