"""Cancels the deliveries of disabled subscriptions, and deletes those of deleted ones, in small batches.

Whoever ends a subscription only marks its endpoint. So a long backlog delays neither that caller nor
the deliveries of others.
"""

import asyncio
import time
from collections.abc import Callable

from common.postgres.database import Database
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.notifier.ended_subscriptions import store

BATCH = 500  # deliveries in one statement
ENDPOINTS = 500  # that take turns
IDLE_SECONDS = 1.0  # when nothing is left

log = Log("ended_subscriptions")


class EndedSubscriptions:
    def __init__(self, database: Database, wake: Callable[[], None], *, endpoint_concurrency: int) -> None:
        """`wake`: called when deliveries to an endpoint may go on."""
        self._database = database
        self._wake = wake
        self._endpoint_concurrency = endpoint_concurrency

    async def run(self) -> None:
        """Work until cancelled. Two notifiers skip each other's rows."""
        outage = Outage()
        while True:
            began = time.monotonic()
            ended = 0
            with outage.tolerate("ended_subscriptions.database_unavailable", log):
                ended = await self.advance()
            # Use at most half of one connection's time.
            await asyncio.sleep(time.monotonic() - began if ended else IDLE_SECONDS)

    async def advance(self) -> int:
        """End one batch of deliveries of each subscription. Return how many ended."""
        counts = [await self._end_batch(each) for each in await store.find_canceling(self._database, ENDPOINTS)]
        if ended := sum(counts):
            log.info("ended_subscriptions.advanced", count=ended)
        return ended

    async def _end_batch(self, endpoint: store.CancelingEndpoint) -> int:
        """End one batch. Return how many deliveries ended. The cleanup deletes a deleted subscription's endpoint."""
        if endpoint.deleted:
            return await store.delete_deliveries(self._database, endpoint.id, BATCH)
        canceled = await store.cancel_deliveries(self._database, endpoint.id, BATCH)
        if canceled < BATCH:
            async with self._database.transaction() as connection:
                resumes = await store.end_canceling(connection, endpoint.id, self._endpoint_concurrency)
            if resumes:
                self._wake()
        return canceled
