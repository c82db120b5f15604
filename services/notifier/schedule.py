"""When a delivery is tried again, and when it is given up. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import msgspec

from services.notifier.outcome import Outcome

JITTER = 0.2
MAX_WAIT = 24 * 3600.0  # seconds a receiver may ask us to wait
OWN_FAULT_SECONDS = (0.5, 30.0)  # least and most before another attempt when the last failed for us
OBEYED = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


class Succeeded(msgspec.Struct, frozen=True):
    pass


class Again(msgspec.Struct, frozen=True):
    """Another attempt after `delay` seconds; `counted` says whether this one used up a place in the schedule."""

    delay: float
    counted: bool = True


class Exhausted(msgspec.Struct, frozen=True):
    """No further attempt; `gone` says that the receiver wants no more of anything."""

    gone: bool = False


Verdict = Succeeded | Again | Exhausted


def decide(
    outcome: Outcome, tries: int, age: float, schedule: Sequence[float], *, random: float, now: datetime
) -> Verdict:
    """What follows from an attempt.

    `tries` counts the attempts before this one, `age` is the delivery's in seconds, `random` is in [0, 1).
    """
    if outcome.fault is None:
        return Succeeded()
    # Our own fault takes nothing from the receiver, but a delivery older than its whole schedule has to end some time.
    if outcome.ours and age <= sum(schedule):
        shortest, longest = OWN_FAULT_SECONDS
        planned = schedule[min(tries + 1, len(schedule) - 1)]
        return Again(vary(min(max(planned, shortest), longest), random), counted=False)
    if outcome.status_code == HTTPStatus.GONE:
        return Exhausted(gone=True)
    if tries + 1 >= len(schedule):
        return Exhausted()
    delay = vary(schedule[tries + 1], random)
    if outcome.status_code in OBEYED:
        # The later of both: a receiver that keeps asking for one second must not use up its attempts in seconds.
        delay = max(delay, read_retry_after(outcome.retry_after, now) or 0.0)
    return Again(delay)


def vary(delay: float, random: float) -> float:
    """The delay ±20 %, so that what failed together does not come back together."""
    return delay * (1 + JITTER * (2 * random - 1))


def read_retry_after(text: str | None, now: datetime) -> float | None:
    """Seconds from now in a Retry-After header (seconds or an HTTP date), at most a day; None for none or junk."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), MAX_WAIT)  # of any length: beyond what a float holds it is infinite
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    wait = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return min(wait, MAX_WAIT) if wait >= 0 else None
