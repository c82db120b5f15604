"""Limits the bytes of the files that jobs add for a tenant.

Each gateway counts a tenant's files seldom, and adds its own in between. So an answer costs nothing, and tenants may
have a little more than their limit.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from uuid import UUID

from common.postgres.batcher import Batcher
from services.gateway.http.problems import Problem
from services.gateway.jobs.inputs.store import InputStore
from services.gateway.models import freshness

SETTING = "CHARONIA_MAX_STORED_BYTES"
RETRY_SECONDS = 60
MAX_TENANTS = 10_000  # that are remembered


@dataclass
class Level:
    """The bytes of a tenant's files, as far as this gateway knows, until they are counted again."""

    size: int
    fresh_until: float


class StoredLimit:
    def __init__(self, store: InputStore, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`most` is in bytes, for each tenant."""
        self._store = store
        self._most = most
        self._clock = clock
        self._levels: dict[UUID, Level] = {}
        self._counts: Batcher[UUID, Level] = Batcher(self._count, name="stored bytes")

    async def admit(self, tenant_id: UUID, size: int) -> None:
        """Count files of `size` bytes for a tenant. Raises Problem beyond the limit: 413 or 429."""
        if size > self._most:
            raise never_fits(size, self._most)
        level = self._levels.get(tenant_id)
        if level is None or self._clock() >= level.fresh_until:
            level = await self._counts.submit(tenant_id)
        if level.size + size > self._most:
            raise exceeded(level.size, size, self._most)
        level.size += size

    async def _count(self, tenants: list[UUID]) -> list[Level]:
        began = self._clock()
        wanted = {each for each in tenants if (level := self._levels.get(each)) is None or began >= level.fresh_until}
        sizes = await self._store.measure(wanted) if wanted else {}
        now = self._clock()
        fresh_until = now + freshness.fresh_for(now - began)
        if len(self._levels) > MAX_TENANTS:
            self._levels = {tenant: level for tenant, level in self._levels.items() if now < level.fresh_until}
        self._levels |= {tenant: Level(sizes.get(tenant, 0), fresh_until) for tenant in wanted}
        return [self._levels[tenant] for tenant in tenants]


def never_fits(size: int, most: int) -> Problem:
    text = f"the inputs have {size} bytes, and all your files and jobs may have {most} in the object store ({SETTING})"
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", text)


def exceeded(stored: int, size: int, most: int) -> Problem:
    text = (
        f"the inputs have {size} bytes; your files and jobs have {stored} in the object store, and may have {most} "
        f"({SETTING}); delete files, erase ended jobs, or wait until they expire"
    )
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return Problem(HTTPStatus.TOO_MANY_REQUESTS, "quota_exceeded", text, headers=headers)
