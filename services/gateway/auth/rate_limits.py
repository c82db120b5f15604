"""The rate limit of each key, in requests a second over all gateways: a bucket of permits in the database.

The headers are those of draft-ietf-httpapi-ratelimit-headers.
"""

import asyncio
import math
from collections import Counter
from http import HTTPStatus
from typing import Any, NamedTuple
from uuid import UUID

from litestar.types import ASGIApp, Message, Receive, Scope, Send

from common.postgres.batcher import Batcher
from services.gateway.auth.store import Key, RateLimitStore, Taken
from services.gateway.http.problems import Problem

PERMIT = "charonia.permit"  # the key of a request's permit in its ASGI scope
MAX_RATE = 10_000  # requests a second; the database's times are too coarse for more
WINDOW = 1  # seconds in which an empty bucket fills


class Permit(NamedTuple):
    """What a request of a limited key gets; times in seconds."""

    granted: bool
    limit: int
    remaining: int
    full_in: float

    @property
    def retry_after(self) -> int:
        """Return the seconds until the next permit, for the header."""
        return max(1, math.ceil(self.full_in - WINDOW + 1 / self.limit))

    @property
    def headers(self) -> dict[str, str]:
        """Return the rate-limit headers; `t` is the time until the bucket is full.

        The database counts from the start of its statement. One that waits for the row of a key sees that another,
        which began later, has emptied the bucket: it seems to be full in a little more than the window.
        """
        return {
            "RateLimit-Policy": f'"key";q={self.limit};w={WINDOW}',
            "RateLimit": f'"key";r={self.remaining};t={min(WINDOW, math.ceil(self.full_in))}',
        }


class RateLimiter:
    """Admits requests while their key has permits."""

    def __init__(self, store: RateLimitStore, default: int) -> None:
        """`default` limits keys without a limit of their own, in requests a second; 0 for no limit."""
        self._store = store
        self._default = default
        self._permits: Batcher[tuple[UUID, int], Permit] = Batcher(self._take_permits, name="rates")

    async def admit(self, key: Key, scope: Any) -> None:
        """Take a permit for a request; raises Problem (429) if none is left.

        A key that others made takes one of each of them, too. Otherwise a key could make any number of keys, and
        together they would have no limit.
        """
        limits = {key.id: key.rate_limit} | dict(zip(key.makers, key.maker_limits, strict=True))
        effective = {each: self._default if limit is None else limit for each, limit in limits.items()}
        wanted = [self._permits.submit((each, limit)) for each, limit in effective.items() if limit]
        if not wanted:
            return
        permits: list[Permit] = await asyncio.gather(*wanted)
        scope[PERMIT] = permit = min(permits, key=lambda each: (each.granted, each.remaining))
        if not permit.granted:
            whose = (
                "the API key exceeds its limit" if permit is permits[0] else "the API keys exceed their common limit"
            )
            text = f"{whose} of {permit.limit} requests a second; wait as Retry-After says, and repeat"
            retry = {"Retry-After": str(permit.retry_after)}
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "rate_limited", text, headers=retry)

    async def _take_permits(self, requests: list[tuple[UUID, int]]) -> list[Permit]:
        """Take one permit for each request (key, limit), in order, while there are some."""
        limits = dict(requests)
        counts = Counter(key for key, _ in requests)
        wanted = [(key, count, limits[key]) for key, count in counts.items()]
        taken = await self._store.take_permits(wanted)
        if fresh := limits.keys() - taken.keys():
            await self._store.add_buckets(list(fresh))
            taken |= await self._store.take_permits([each for each in wanted if each[0] in fresh])
        permits = {key: iter(share(taken[key], count, limits[key])) for key, count in counts.items()}
        return [next(permits[key]) for key, _ in requests]


def share(taken: Taken, wanted: int, limit: int) -> list[Permit]:
    """Share the permits taken among `wanted` requests, in order. Pure."""
    left = max(0, math.floor(limit * (WINDOW - taken.full_in) + 0.01))
    return [
        Permit(number < taken.permits, limit, left + max(0, taken.permits - 1 - number), taken.full_in)
        for number in range(wanted)
    ]


class RateLimitHeadersMiddleware:
    """Adds the rate-limit headers to every answer to a limited key, errors too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def add_headers(message: Message) -> None:
            permit: Permit | None = scope.get(PERMIT)  # type: ignore[assignment]
            if permit is not None and message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in permit.headers.items()]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        await self._app(scope, receive, add_headers)
