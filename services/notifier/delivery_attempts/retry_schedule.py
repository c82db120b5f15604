"""Decides when a delivery is tried again, and when it ends. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import msgspec

from services.notifier.delivery_attempts.result import AttemptResult

JITTER = 0.2
MAX_RETRY_AFTER = 24 * 3600.0  # seconds
INTERNAL_ERROR_SECONDS = (0.5, 30.0)  # shortest and longest delay after an internal error
RETRY_AFTER_STATUSES = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


class Succeeded(msgspec.Struct, frozen=True):
    pass


class Rescheduled(msgspec.Struct, frozen=True):
    """Another attempt follows after `delay` seconds.

    `counted`: this attempt used up a step of the schedule.
    """

    delay: float
    counted: bool = True


class Exhausted(msgspec.Struct, frozen=True):
    """No attempt follows. `disables_webhook`: the receiver wants no further events."""

    disables_webhook: bool = False


Decision = Succeeded | Rescheduled | Exhausted


def decide(
    result: AttemptResult, tries: int, age: float, schedule: Sequence[float], *, random: float, now: datetime
) -> Decision:
    """Decide what follows an attempt.

    `tries` counts the attempts before this one. `age` is the delivery's, in seconds. `random` is in
    [0, 1).
    """
    if result.error is None:
        return Succeeded()
    # An internal error costs the receiver no attempt. But a delivery older than its whole schedule
    # must end.
    if result.internal and age <= sum(schedule):
        shortest, longest = INTERNAL_ERROR_SECONDS
        planned = schedule[min(tries + 1, len(schedule) - 1)]
        return Rescheduled(add_jitter(min(max(planned, shortest), longest), random), counted=False)
    if result.status_code == HTTPStatus.GONE:
        return Exhausted(disables_webhook=True)
    if tries + 1 >= len(schedule):
        return Exhausted()
    delay = add_jitter(schedule[tries + 1], random)
    if result.status_code in RETRY_AFTER_STATUSES:
        # The later of both: a receiver that always asks for one second must not use up its attempts
        # in seconds.
        delay = max(delay, read_retry_after(result.retry_after, now) or 0.0)
    return Rescheduled(delay)


def add_jitter(delay: float, random: float) -> float:
    """Return the delay ±20 %, so deliveries that failed together are spread out."""
    return delay * (1 + JITTER * (2 * random - 1))


def read_retry_after(text: str | None, now: datetime) -> float | None:
    """Return the seconds of a Retry-After header (seconds or an HTTP date), at most a day.

    None if it is missing or invalid.
    """
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), MAX_RETRY_AFTER)  # a number too long for a float becomes infinity
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    wait = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return min(wait, MAX_RETRY_AFTER) if wait >= 0 else None
