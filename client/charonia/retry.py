"""Decides whether a call is repeated, and when. Pure."""

import random
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

import httpx

FIRST_DELAY, LONGEST_DELAY = 0.2, 8.0  # seconds
JITTER = 0.25  # of Retry-After: so that many clients do not come at the same moment
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_PROXY_ERRORS = (502, 504)
_IN_PROGRESS = "request_in_progress"
_UNKNOWN_OUTCOME = "unavailable"  # the gateway may have done it before it stopped


def may_repeat_answer(status: int, code: str, *, repeatable: bool, keyed: bool) -> bool:
    """Return whether a refused call may be sent again without a double effect.

    `keyed` calls have an Idempotency-Key, whose first call may still be under way.
    """
    if status == 429 or (keyed and status == 409 and code == _IN_PROGRESS):
        return True
    if status == 503:
        return repeatable or code not in ("", _UNKNOWN_OUTCOME)
    return repeatable and status in _PROXY_ERRORS


def may_repeat_error(error: httpx.TransportError, *, repeatable: bool) -> bool:
    """Return whether a call that got no answer may be sent again."""
    if isinstance(error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError)):
        return False
    return repeatable or was_never_sent(error)


def was_never_sent(error: httpx.TransportError) -> bool:
    """Return whether a call failed before it reached anybody."""
    return isinstance(error, _NEVER_SENT)


def choose_delay(tries: int, retry_after: float | None, rand: Callable[[], float] = random.random) -> float:
    """Return how many seconds to wait after `tries` tries: never less than `retry_after`."""
    if retry_after is not None:
        return retry_after * (1 + JITTER * rand())
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(tries - 1, 20)) * (0.5 + rand() / 2)


def read_retry_after(headers: Mapping[str, str], now: Callable[[], datetime] | None = None) -> float | None:
    """Return the seconds that Retry-After asks for, given in seconds or as a date. None without it."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - (now() if now else datetime.now(timezone.utc))).total_seconds())
