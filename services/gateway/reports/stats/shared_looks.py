"""What was read for each tenant, kept for a short time. Concurrent readers share one look."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar
from uuid import UUID

from services.gateway.models.freshness import fresh_for

MAX_TENANTS = 1000  # whose numbers are kept

Found = TypeVar("Found")


class SharedLooks(Generic[Found]):
    def __init__(self, look: Callable[[UUID], Awaitable[Found]], clock: Callable[[], float]) -> None:
        """`look` reads for a tenant. `clock` counts seconds."""
        self._look = look
        self._clock = clock
        self._known: OrderedDict[UUID, tuple[Found, float]] = OrderedDict()  # with the time until which they are good
        self._looking: dict[UUID, asyncio.Task[Found]] = {}

    async def read(self, tenant_id: UUID) -> Found:
        """Return what there is for a tenant. A slow look is repeated less often."""
        if known := self._known.get(tenant_id):
            found, until = known
            if self._clock() < until:
                return found
        if tenant_id not in self._looking:
            self._looking[tenant_id] = asyncio.create_task(self._look_and_keep(tenant_id))
            self._looking[tenant_id].add_done_callback(partial(self._forget_look, tenant_id))
        return await asyncio.shield(self._looking[tenant_id])

    async def _look_and_keep(self, tenant_id: UUID) -> Found:
        began = self._clock()
        found, now = await self._look(tenant_id), self._clock()
        self._known[tenant_id] = found, now + fresh_for(now - began)
        self._known.move_to_end(tenant_id)
        if len(self._known) > MAX_TENANTS:
            self._known.popitem(last=False)
        return found

    def _forget_look(self, tenant_id: UUID, look: asyncio.Task[Found]) -> None:
        del self._looking[tenant_id]
        if not look.cancelled():
            look.exception()  # all who waited for it may have gone
