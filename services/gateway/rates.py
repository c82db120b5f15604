"""How many requests a second each key may make, counted over all gateways in one place: a bucket of permits in the
database. The headers are those of draft-ietf-httpapi-ratelimit-headers."""

import math
from collections import Counter
from http import HTTPStatus
from typing import Any, NamedTuple
from uuid import UUID

from common.batching import Batcher
from services.gateway.errors import Problem
from services.gateway.limit_store import LimitStore, Taken
from services.gateway.store import Key

PERMIT = "charonia.permit"  # where a scope keeps what its request was given
MAX_RATE = 10_000  # requests a second; times in the database are too coarse for more
WINDOW = 1  # seconds in which a bucket fills


class Permit(NamedTuple):
    """What a request of a limited key is given; times in seconds."""

    granted: bool
    limit: int
    remaining: int
    full_in: float

    @property
    def retry_after(self) -> int:
        """Seconds until there is a permit again, as a header says it."""
        return max(1, math.ceil(self.full_in - WINDOW + 1 / self.limit))

    @property
    def headers(self) -> dict[str, str]:
        """`t` is when all permits are there again."""
        return {
            "RateLimit-Policy": f'"key";q={self.limit};w={WINDOW}',
            "RateLimit": f'"key";r={self.remaining};t={math.ceil(self.full_in)}',
        }


class Rates:
    def __init__(self, store: LimitStore, default: int) -> None:
        """`default` is the limit of keys that have none of their own, in requests a second; 0 for none."""
        self.store = store
        self.default = default
        self.asked: Batcher[tuple[UUID, int], Permit] = Batcher(self.take, name="rates")

    async def admit(self, key: Key, scope: Any) -> None:
        """Counts a request; its answer's headers will say so. Raises Problem (429)."""
        limit = self.default if key.rate_limit is None else key.rate_limit
        if limit == 0:
            return
        permit: Permit = await self.asked.submit((key.id, limit))
        scope[PERMIT] = permit
        if not permit.granted:
            text = f"this key may make {limit} requests a second"
            retry = {"Retry-After": str(permit.retry_after)}
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "rate_limited", text, headers=retry)

    async def take(self, asked: list[tuple[UUID, int]]) -> list[Permit]:
        """One permit for each, as long as there are some; those who asked first get them."""
        limits = dict(asked)
        counts = Counter(key for key, _ in asked)
        wanted = [(key, count, limits[key]) for key, count in counts.items()]
        taken = await self.store.take_permits(wanted)
        if fresh := limits.keys() - taken.keys():
            await self.store.add_buckets(list(fresh))
            taken |= await self.store.take_permits([each for each in wanted if each[0] in fresh])
        shares = {key: iter(share(taken[key], count, limits[key])) for key, count in counts.items()}
        return [next(shares[key]) for key, _ in asked]


def share(taken: Taken, wanted: int, limit: int) -> list[Permit]:
    """What `wanted` requests get that came in this order. Pure."""
    left = max(0, math.floor(limit * (WINDOW - taken.full_in) + 0.01))
    return [
        Permit(number < taken.permits, limit, left + max(0, taken.permits - 1 - number), taken.full_in)
        for number in range(wanted)
    ]


async def add_headers(message: Any, scope: Any) -> None:
    """For Litestar's `before_send`: any answer to a limited key says what is left, errors too."""
    permit: Permit | None = scope.get(PERMIT)
    if permit is not None and message["type"] == "http.response.start":
        told = [(name.lower().encode(), value.encode()) for name, value in permit.headers.items()]
        message["headers"] = [*message["headers"], *told]
