"""Whether every receiver was told what happened, and nothing else. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tests.acceptance.client import TERMINAL, Job
from tests.acceptance.shapes import SendAttempt
from tests.storm.check_outcome import Finding
from tests.storm.ledger import SUBSCRIPTION, TERMINAL_EVENTS, Delivery, Ledger, Try, key_of
from tests.storm.orders import SLOW

MOMENT = 2.0  # seconds


def check_deliveries(ledger: Ledger) -> Iterator[tuple[str, str, str, str]]:
    """Each webhook by itself, and all of one id together."""
    first: dict[str, Delivery] = {}
    ids: dict[tuple[str, bytes], str] = {}
    for delivery in ledger.deliveries:
        if delivery.event is None:
            yield delivery.id, "valid webhooks", "a signature by the known secret", f"{delivery.path}: {delivery.fault}"
            continue
        known = first.setdefault(delivery.id, delivery)
        if (known.digest, known.path) != (delivery.digest, delivery.path):
            yield delivery.id, "one id, one event", describe(known), describe(delivery)
        other = ids.setdefault((delivery.path, delivery.digest), delivery.id)
        if other != delivery.id:
            yield delivery.id, "one event, one id", f"{other} for {describe(known)}", delivery.id
        attempt = ledger.tries.get(key_of(delivery.event))
        if attempt is None or attempt.job_id != delivery.event.data.id:
            seen = f"one for {delivery.event.data.id}; the submit was {attempt.call if attempt else 'never sent'}"
            yield delivery.id, "no webhook without a job", "none", seen
        elif delivery.path not in (SUBSCRIPTION, f"/callback/{attempt.key}"):
            yield delivery.id, "its own callback", f"/callback/{attempt.key}", delivery.path


def find_repeats(ledger: Ledger) -> dict[str, list[tuple[Delivery, Delivery]]]:
    """By id, webhooks that were taken and came again, each pair in which nothing had hit the sender or the database."""
    taken: dict[str, Delivery] = {}
    repeats: dict[str, list[tuple[Delivery, Delivery]]] = {}
    for delivery in ledger.deliveries:
        before = taken.get(delivery.id)
        if before is not None and not any(
            fault.kind in ("notifier", "postgres") and fault.began - MOMENT <= before.at <= fault.ended + MOMENT
            for fault in ledger.faults
        ):
            repeats.setdefault(delivery.id, []).append((before, delivery))
        if was_taken(delivery):
            taken[delivery.id] = delivery
    return repeats


def check_repeats(ledger: Ledger, sendings: Mapping[str, Sequence[SendAttempt]]) -> Iterator[tuple[str, str, str, str]]:
    """A webhook that was taken comes again only where its sender, or the database, went away at that moment, or where
    the answer came too late: then its attempts say so, beside those that the receiver let wait on purpose."""
    slow = Counter(delivery.id for delivery in ledger.deliveries if delivery.answer == SLOW)
    for delivery_id, pairs in find_repeats(ledger).items():
        late = sum(attempt.error == "timeout" for attempt in sendings.get(delivery_id, ())) - slow[delivery_id]
        for before, again in pairs[max(late, 0) :]:
            yield delivery_id, "no second time without a fault", f"once, {before.at:.3f}", f"again, {again.at:.3f}"


def check_told(attempt: Try, job: Job, deliveries: Sequence[Delivery]) -> Iterator[Finding]:
    """Both receivers were told of each end of the job, and last of what the API says."""
    least = 1 + sum(call.outcome == "accepted" for call in attempt.retries)
    most = least + sum(call.outcome == "unknown" for call in attempt.retries)
    if job.webhook_status != "succeeded":
        yield "webhook_status", "succeeded", job.webhook_status
    for path in (SUBSCRIPTION, f"/callback/{attempt.key}"):
        ends = [each for each in deliveries if each.path == path and each.event and each.event.type in TERMINAL_EVENTS]
        taken = {each.id for each in ends if was_taken(each)}
        if not least <= len(taken) <= most or {each.id for each in ends} != taken:
            seen = f"{len(taken)} taken: {', '.join(describe(each) for each in ends) or 'none'}"
            yield f"told at {path}", f"{least} to {most} ends of the job", seen
        if job.status in TERMINAL and not any(tells(each, job) for each in ends):
            yield f"told the truth at {path}", describe_job(job), "; ".join(tell_difference(each, job) for each in ends)


def was_taken(delivery: Delivery) -> bool:
    return isinstance(delivery.answer, int) and delivery.answer < 300


def tells(delivery: Delivery, job: Job) -> bool:
    return delivery.event is not None and not tell_difference(delivery, job)


def tell_difference(delivery: Delivery, job: Job) -> str:
    """The fields in which a webhook and the API differ, without those that may."""
    if delivery.event is None:
        return "invalid"
    told = msgspec.structs.asdict(delivery.event.data)
    said = msgspec.structs.asdict(job)
    differ = [name for name in said if name not in ("webhook_status", "queue_position") and told[name] != said[name]]
    return ", ".join(f"{name}: {told[name]!r} is not {said[name]!r}" for name in differ)


def describe(delivery: Delivery) -> str:
    event = delivery.event
    text = f"{event.type} of {event.data.id} at {event.timestamp}" if event else "invalid"
    return f"{delivery.id} at {delivery.path}, answered {delivery.answer}: {text}"


def describe_job(job: Job) -> str:
    return f"{job.status}, attempt {job.attempt}, finished at {job.finished_at}"
