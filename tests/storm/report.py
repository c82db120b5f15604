"""What is printed at the end."""

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.storm.check import Violation
from tests.storm.check_webhooks import was_taken
from tests.storm.evidence import Evidence
from tests.storm.ledger import Ledger

SHOWN = 40  # violations


def write(ledger: Ledger, evidence: Evidence, violations: Sequence[Violation]) -> Iterator[str]:
    yield from tabulate("jobs", Counter((job.model, job.status) for job in evidence.jobs.values()))
    yield from tabulate("faults", Counter((fault.kind, fault.action) for fault in ledger.faults))
    yield from tabulate("submits", Counter(("tries", each.call.outcome) for each in ledger.tries.values()))
    for name, number in count(ledger, evidence).items():
        yield f"{name:44}{number:8}"
    yield f"{'seconds to come to rest':44}{evidence.rest:8.1f}"
    yield from (f"note: {text}" for text in (*ledger.deaths, *ledger.odd))
    yield f"{'violations':44}{len(violations):8}"
    for found in violations[:SHOWN]:
        yield f"VIOLATION {found.rule}: {found.subject}\n  expected {found.expected}\n  seen     {found.seen}"
    if len(violations) > SHOWN:
        yield f"… and {len(violations) - SHOWN} more: {dict(Counter(found.rule for found in violations))}"


def count(ledger: Ledger, evidence: Evidence) -> dict[str, int]:
    tries, attempts = ledger.tries.values(), [each for found in evidence.attempts.values() for each in found]
    adopted = [each for each in tries if each.job_id and each.call.outcome == "unknown"]
    ids = {delivery.id for delivery in ledger.deliveries}
    returned = Counter(each.error_code for each in attempts if each.status == "returned")
    lost = [each for each in attempts if each.error_code == "worker_lost"]
    numbers = {
        "jobs of submits without an answer": len([each for each in adopted if each.call.status is None]),
        "jobs of submits answered 503": len([each for each in adopted if each.call.status is not None]),
        "cancels accepted": sum(call.outcome == "accepted" for each in tries for call in each.cancels),
        "retries accepted": sum(call.outcome == "accepted" for each in tries for call in each.retries),
        "webhooks": len(ids),
        "  sent again after a failure": len(ledger.deliveries) - len(ids) - (repeated := count_repeated(ledger)),
        "  duplicates: sent again after they were taken": repeated,
        "attempts": len(attempts),
        "  run again: worker lost": len(lost),
    }
    return numbers | {f"  given back: {code}": number for code, number in sorted(returned.items(), key=str)}


def count_repeated(ledger: Ledger) -> int:
    taken: set[str] = set()
    repeated = 0
    for delivery in ledger.deliveries:
        repeated += delivery.id in taken
        if was_taken(delivery):
            taken.add(delivery.id)
    return repeated


def tabulate(name: str, counts: Counter[tuple[str, str]]) -> Iterator[str]:
    """Rows and columns of what was counted in pairs."""
    columns = sorted({column for _, column in counts})
    yield f"{name:16}" + "".join(f"{column:>12}" for column in columns)
    for row in sorted({row for row, _ in counts}):
        yield f"  {row:14}" + "".join(f"{counts[row, column] or '':>12}" for column in columns)
