"""Puts outputs into object stores, a few at a time."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

from common.fair_semaphore import FairSemaphore
from common.object_store.store import PIECE, ObjectStore, StoredObject
from services.dispatcher.triton.tensors import OutputFile

PUTS_PER_TENANT = 2


class ObjectPuts:
    """Lets `most` puts run at a time. A tenant with many large outputs leaves permits to others."""

    def __init__(self, most: int) -> None:
        self._permits: FairSemaphore[UUID] = FairSemaphore(most, each=PUTS_PER_TENANT)
        self._puts: set[asyncio.Task[StoredObject]] = set()

    async def put(self, tenant_id: UUID, objects: ObjectStore, key: str, file: OutputFile) -> None:
        """Write an object, and drop its data. Raises as ObjectStore.put does."""
        async with self._permits.acquire(tenant_id):
            await self._put(objects, key, file)
        file.data, file.is_stored = memoryview(b""), True

    async def _put(self, objects: ObjectStore, key: str, file: OutputFile) -> None:
        """Write an object. A cancel does not wait until what is written is deleted: the store may be away."""
        put = asyncio.create_task(objects.put(key, cut(file.data), sha256=file.sha256))
        self._puts.add(put)
        put.add_done_callback(self._forget_put)
        try:
            await asyncio.wait({put})
        finally:
            put.cancel()  # no effect if it is done
        put.result()

    def _forget_put(self, put: asyncio.Task[StoredObject]) -> None:
        self._puts.discard(put)
        if not put.cancelled():
            put.exception()  # marks it as retrieved


async def cut(data: memoryview) -> AsyncIterator[bytes]:
    """Yield data in pieces, each a copy of its own."""
    for offset in range(0, len(data), PIECE):
        yield bytes(data[offset : offset + PIECE])
