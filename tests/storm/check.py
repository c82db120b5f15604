"""The checker: what was promised, held against what the API says and what the receiver saw. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from tests.storm.check_attempts import check_attempts
from tests.storm.check_outcome import check_outcome
from tests.storm.check_webhooks import check_deliveries, check_repeats, check_told
from tests.storm.evidence import Evidence
from tests.storm.ledger import Delivery, Ledger

# This Triton may crash of a cancellation that races with the end of a run (docs/triton.md): a fault among the others.
FORGIVEN = "triton ended by itself with code -"


class Violation(NamedTuple):
    """`subject` is a job's or a webhook's id."""

    subject: str
    rule: str
    expected: str
    seen: str


def check(ledger: Ledger, evidence: Evidence) -> list[Violation]:
    """All violations; none where every promise was kept."""
    return [Violation(*found) for found in find(ledger, evidence)]


def find(ledger: Ledger, evidence: Evidence) -> Iterator[tuple[str, str, str, str]]:
    for text in (*ledger.deaths, *ledger.odd):
        if not text.startswith(FORGIVEN):
            yield "", "nothing odd", "nothing", text
    yield from check_deliveries(ledger)
    yield from check_repeats(ledger, evidence.sendings)
    told: dict[str, list[Delivery]] = {}
    for delivery in ledger.deliveries:
        if delivery.event is not None:
            told.setdefault(delivery.event.data.id, []).append(delivery)
    for attempt in ledger.tries.values():
        if attempt.job_id is None:
            continue
        job, attempts = evidence.jobs.get(attempt.job_id), evidence.attempts.get(attempt.job_id, [])
        if job is None and attempt.call.outcome == "unknown":
            continue  # its webhook came when the rest had been looked at
        if job is None:
            yield attempt.job_id, "accepted is kept", "a job", "nothing under that id"
            continue
        findings = (
            *check_outcome(attempt, job, attempts),
            *check_told(attempt, job, told.get(job.id, [])),
            *check_attempts(attempt.order, job, attempts, ledger.faults),
        )
        for rule, expected, seen in findings:
            yield job.id, rule, expected, seen
