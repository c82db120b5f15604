"""How many requests a key may make, and what it is told."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from uuid import UUID

import pytest

from common import ids
from services.gateway.auth.rate_limits import PERMIT, Permit, RateLimiter, RateLimitHeadersMiddleware, share
from services.gateway.auth.store import Key, RateLimitStore, Taken
from services.gateway.http.problems import Problem

LIMIT = 4


class Buckets(RateLimitStore):
    """Buckets without a database, at a time that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.full_at: dict[UUID, float] = {}
        self.sizes: list[int] = []

    async def take_permits(self, wanted: Sequence[tuple[UUID, int, int]]) -> dict[UUID, Taken]:
        self.sizes.append(len(wanted))
        return {key: self.take(key, count, rate) for key, count, rate in wanted if key in self.full_at}

    def take(self, key: UUID, count: int, rate: int) -> Taken:
        full_at = max(self.full_at[key], self.now)
        permits = min(count, int(rate * (1 - (full_at - self.now)) + 0.01))
        self.full_at[key] = full_at + permits / rate
        return Taken(permits, self.full_at[key] - self.now)

    async def add_buckets(self, keys: Sequence[UUID]) -> None:
        self.full_at |= dict.fromkeys(keys, self.now)


def new_key(limit: int | None = LIMIT) -> Key:
    return Key(ids.new(), ids.new(), rate_limit=limit)


async def ask(rates: RateLimiter, key: Key) -> Permit | None:
    """What the request is given, granted or not."""
    scope: dict[str, Any] = {}
    (problem,) = await asyncio.gather(rates.admit(key, scope), return_exceptions=True)
    permit: Permit | None = scope.get(PERMIT)
    assert (problem is None) == (permit is None or permit.granted)
    if isinstance(problem, Problem) and permit:
        assert (problem.status, problem.code) == (HTTPStatus.TOO_MANY_REQUESTS, "rate_limited")
        assert problem.headers == {"Retry-After": str(permit.retry_after)}
    return permit


async def ask_often(rates: RateLimiter, key: Key, count: int) -> list[bool]:
    return [permit.granted for _ in range(count) if (permit := await ask(rates, key))]


async def test_a_key_has_a_seconds_requests_at_once_and_then_one_at_a_time() -> None:
    buckets, key = Buckets(), new_key()
    rates = RateLimiter(buckets, 0)
    assert await ask_often(rates, key, LIMIT + 2) == [True] * LIMIT + [False] * 2
    buckets.now = 0.25
    assert await ask_often(rates, key, 2) == [True, False]
    buckets.now = 1000.0
    assert await ask_often(rates, key, LIMIT + 1) == [True] * LIMIT + [False]


async def test_those_who_ask_at_once_share_what_is_there_in_one_statement() -> None:
    buckets, key, other = Buckets(), new_key(), new_key(1)
    rates = RateLimiter(buckets, 0)
    await ask(rates, key)
    buckets.sizes.clear()
    permits = await asyncio.gather(*(ask(rates, each) for each in [key] * 4 + [other] * 2))
    shown = [(permit.granted, permit.remaining) for permit in permits if permit]
    assert shown == [(True, 2), (True, 1), (True, 0), (False, 0), (True, 0), (False, 0)]
    assert buckets.sizes == [2, 1]  # and one for the key that had no bucket


@pytest.mark.parametrize(("own", "default", "granted"), [(None, 0, 0), (0, 3, 0), (None, 3, 3), (2, 3, 2)])
async def test_a_keys_own_limit_goes_before_the_default_and_0_is_none(
    own: int | None, default: int, granted: int
) -> None:
    answers = await ask_often(RateLimiter(Buckets(), default), new_key(own), 5)
    assert answers == ([True] * granted + [False] * (5 - granted) if granted else [])


@pytest.mark.parametrize(("full_in", "left"), [(0.25, 3), (1.02, 0)])  # the latter once a statement waited for another
def test_the_headers_say_the_limit_what_is_left_and_when_all_is_there_again(full_in: float, left: int) -> None:
    (permit,) = share(Taken(1, full_in), 1, LIMIT)
    assert permit.headers == {"RateLimit-Policy": '"key";q=4;w=1', "RateLimit": f'"key";r={left};t=1'}


@pytest.mark.parametrize(
    ("limit", "full_in", "seconds"), [(1, 1.0, 1), (1, 0.1, 1), (4, 1.0, 1), (1, 2.0, 2), (1, 1.5, 2), (10, 1.95, 2)]
)
def test_retry_after_is_when_there_is_a_permit_again(limit: int, full_in: float, seconds: int) -> None:
    (permit,) = share(Taken(0, full_in), 1, limit)
    assert (permit.granted, permit.remaining, permit.retry_after) == (False, 0, seconds)


@pytest.mark.parametrize("limited", [True, False])
async def test_only_the_head_of_an_answer_to_a_limited_key_gets_headers(limited: bool) -> None:
    (permit,) = share(Taken(1, 0.25), 1, LIMIT)
    scope: Any = {PERMIT: permit} if limited else {}
    sent: list[Any] = []
    receive: Any = None

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b""})

    async def send(message: Any) -> None:
        sent.append(message)

    await RateLimitHeadersMiddleware(app)(scope, receive, send)
    own = [(b"ratelimit-policy", b'"key";q=4;w=1'), (b"ratelimit", b'"key";r=3;t=1')]
    assert sent[0]["headers"] == [(b"a", b"b"), *(own if limited else [])]
    assert sent[1] == {"type": "http.response.body", "body": b""}
