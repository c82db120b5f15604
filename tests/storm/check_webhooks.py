"""Checks that every receiver got the right webhooks, and no others. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tests.storm.check_outcome import Finding
from tests.storm.job_requests import SLOW
from tests.storm.storm_log import SUBSCRIPTION, TERMINAL_EVENTS, Delivery, StormLog, Submission, read_key
from tests.support.api.api_client import TERMINAL, Job
from tests.support.api.api_shapes import SendAttempt

MARGIN = 2.0  # seconds before and after a fault in which it may have effects
MAY_DIFFER = ("webhook_status", "queue_position", "waiting_for", "steps")


def check_deliveries(log: StormLog) -> Iterator[tuple[str, str, str, str]]:
    """Check each webhook by itself, and all webhooks with one id together."""
    first: dict[str, Delivery] = {}
    ids: dict[tuple[str, bytes], str] = {}
    for delivery in log.deliveries:
        if delivery.event is None:
            seen = f"{delivery.path}: {delivery.fault}"
            yield delivery.id, "webhooks are valid", "a signature by the known secret", seen
            continue
        first_seen = first.setdefault(delivery.id, delivery)
        if (first_seen.digest, first_seen.path) != (delivery.digest, delivery.path):
            yield delivery.id, "one id means one event", describe(first_seen), describe(delivery)
        other = ids.setdefault((delivery.path, delivery.digest), delivery.id)
        if other != delivery.id:
            yield delivery.id, "one event has one id", f"{other} for {describe(first_seen)}", delivery.id
        submission = log.submissions.get(read_key(delivery.event))
        if submission is None or submission.job_id != delivery.event.data.id:
            seen = f"one for {delivery.event.data.id}; the submit was {submission.call if submission else 'never sent'}"
            yield delivery.id, "no webhook without a job", "none", seen
        elif delivery.path not in (SUBSCRIPTION, f"/callback/{submission.key}"):
            yield delivery.id, "callbacks go to their own URL", f"/callback/{submission.key}", delivery.path


def find_unexplained_repeats(log: StormLog) -> dict[str, list[tuple[Delivery, Delivery]]]:
    """Return webhooks that were accepted and came again, by id.

    Leave out pairs whose first delivery came during a fault of a notifier or the database.
    """
    accepted: dict[str, Delivery] = {}
    repeats: dict[str, list[tuple[Delivery, Delivery]]] = {}
    for delivery in log.deliveries:
        earlier = accepted.get(delivery.id)
        if earlier is not None and not any(
            fault.kind in ("notifier", "postgres") and fault.began - MARGIN <= earlier.at <= fault.ended + MARGIN
            for fault in log.faults
        ):
            repeats.setdefault(delivery.id, []).append((earlier, delivery))
        if delivery.was_accepted:
            accepted[delivery.id] = delivery
    return repeats


def check_repeated(
    log: StormLog, delivery_attempts: Mapping[str, Sequence[SendAttempt]]
) -> Iterator[tuple[str, str, str, str]]:
    """Check that an accepted webhook came again only because of a fault or a late response.

    A late response shows as a timeout among the attempts. Timeouts that the receiver caused on purpose do not count.
    """
    slow = Counter(delivery.id for delivery in log.deliveries if delivery.response == SLOW)
    for delivery_id, pairs in find_unexplained_repeats(log).items():
        timeouts = sum(attempt.error_code == "timeout" for attempt in delivery_attempts.get(delivery_id, ()))
        for earlier, repeated in pairs[max(timeouts - slow[delivery_id], 0) :]:
            expected, seen = f"once, at {earlier.at:.3f}", f"again, at {repeated.at:.3f}"
            yield delivery_id, "no repeated webhook without a fault", expected, seen


def check_job_webhooks(submission: Submission, job: Job, deliveries: Sequence[Delivery]) -> Iterator[Finding]:
    """Check that both receivers got each end of the job, and that the last matches the API."""
    fewest = 1 + sum(call.outcome == "accepted" for call in submission.retries)
    most = fewest + sum(call.outcome == "unknown" for call in submission.retries)
    if job.webhook_status != "succeeded":
        yield "webhook_status", "succeeded", str(job.webhook_status)
    for path in (SUBSCRIPTION, f"/callback/{submission.key}"):
        ends = [each for each in deliveries if each.path == path and each.event and each.event.type in TERMINAL_EVENTS]
        accepted = {each.id for each in ends if each.was_accepted}
        if not fewest <= len(accepted) <= most or {each.id for each in ends} != accepted:
            seen = f"{len(accepted)} accepted: {', '.join(describe(each) for each in ends) or 'none'}"
            yield f"webhooks at {path}", f"{fewest} to {most} ends of the job", seen
        if job.status in TERMINAL and not any(matches(each, job) for each in ends):
            seen = "; ".join(describe_difference(each, job) for each in ends)
            yield f"webhook data at {path}", describe_job(job), seen


def matches(delivery: Delivery, job: Job) -> bool:
    return delivery.event is not None and not describe_difference(delivery, job)


def describe_difference(delivery: Delivery, job: Job) -> str:
    """Describe the fields in which a webhook and the API differ, except those that may differ."""
    if delivery.event is None:
        return "invalid"
    sent, current = msgspec.structs.asdict(delivery.event.data), msgspec.structs.asdict(job)
    differ = [name for name in current if name not in MAY_DIFFER and sent[name] != current[name]]
    return ", ".join(f"{name}: {sent[name]!r} is not {current[name]!r}" for name in differ)


def describe(delivery: Delivery) -> str:
    event = delivery.event
    text = f"{event.type} of {event.data.id} at {event.timestamp}" if event else "invalid"
    return f"{delivery.id} at {delivery.path}, response {delivery.response}: {text}"


def describe_job(job: Job) -> str:
    return f"{job.status}, attempt {job.attempt}, finished at {job.finished_at}"
