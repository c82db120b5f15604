"""Compares what was promised with what the API says and what the receiver got. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.storm.api_state import ApiState
from tests.storm.check_attempts import check_attempts
from tests.storm.check_erasure import check_erased, restore, was_erased
from tests.storm.check_liveness import check_liveness
from tests.storm.check_outcome import check_outcome
from tests.storm.check_reuse import check_reuse
from tests.storm.check_run import check_run
from tests.storm.check_webhooks import check_deliveries, check_job_webhooks, check_repeated
from tests.storm.storm_log import Delivery, StormLog, Submission
from tests.support.api.api_client import Job

# Triton may crash if a cancellation races with the end of an inference: one more fault.
# See docs/how-to/bring-your-own-model.md.
KNOWN_CRASH = re.compile(r"triton(-\d+)? ended by itself with code -")

Found = tuple[str, str, str, str]  # the fields of a violation


class Violation(NamedTuple):
    """A broken promise. `subject` is the id of a job or a webhook."""

    subject: str
    rule: str
    expected: str
    seen: str


def check(log: StormLog, state: ApiState) -> list[Violation]:
    """Return all violations, or none if every promise was kept."""
    return [Violation(*found) for found in find_violations(log, state)]


def find_violations(log: StormLog, state: ApiState) -> Iterator[Found]:
    for text in (*log.crashes, *log.anomalies):
        if not KNOWN_CRASH.match(text):
            yield "", "no anomalies", "nothing", text
    yield from check_liveness(log)
    yield from check_reuse(log, state)
    yield from check_deliveries(log)
    yield from check_repeated(log, state.delivery_attempts)
    by_job: dict[str, list[Delivery]] = {}
    for delivery in log.deliveries:
        if delivery.event is not None:
            by_job.setdefault(delivery.event.data.id, []).append(delivery)
    for submission in log.submissions.values():
        if submission.job_id is None:
            continue
        job = state.jobs.get(submission.job_id)
        if job is None and submission.call.outcome == "unknown" and submission.job_id not in state.missing:
            continue  # its webhook came after the jobs had been read
        if job is None:
            yield submission.job_id, "accepted jobs exist", "a job", "no job with this id"
            continue
        yield from check_job(submission, job, by_job.get(job.id, []), state, log)


def check_job(
    submission: Submission, job: Job, deliveries: Sequence[Delivery], state: ApiState, log: StormLog
) -> Iterator[Found]:
    """Check a job or a run with its webhooks. An erased one is checked as its last webhook described it."""
    if was_erased(submission, job):
        yield from check_erased(job, state)
        job = restore(job, deliveries)
    findings = [*check_job_webhooks(submission, job, deliveries)]
    if submission.request.is_run:
        yield from check_run(submission, job, state, log)
    else:
        attempts = state.attempts.get(job.id, [])
        findings += check_outcome(submission, job, attempts)
        findings += check_attempts(submission.request, job, attempts, log)
    for rule, expected, seen in findings:
        yield job.id, rule, expected, seen
