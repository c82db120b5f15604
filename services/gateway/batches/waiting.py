"""Waits until all jobs of a batch have ended."""

import asyncio
from uuid import UUID

from services.gateway.auth.store import Key
from services.gateway.batches.store import BatchStore
from services.gateway.events.waiters import Waiters


class BatchWaiting:
    def __init__(self, store: BatchStore, waiters: Waiters) -> None:
        self._store = store
        self._waiters = waiters

    async def wait(self, batch_id: UUID, key: Key, seconds: float) -> None:
        """Return when the batch is completed and none of its jobs waits or runs, or after `seconds`.

        Also returns when the gateway stops. A completed batch may have jobs that were retried.
        Raises Problem as Waiters.wait does.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        await self._waiters.wait(batch_id, key, seconds)
        while not self._waiters.closing and (left := until - clock()) > 0:
            job = await self._store.find_open_job(batch_id)
            if job is None:
                return
            await self._waiters.wait(job, key, left)
