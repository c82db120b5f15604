"""Ends deliveries that have waited a whole schedule behind an open circuit, in small batches."""

import asyncio
import time
from collections.abc import Sequence

from common import ids
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.telemetry import tracing
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.notifier.delivery_attempts.retry_schedule import JITTER
from services.notifier.delivery_attempts.store import release_blocked
from services.notifier.endpoints.store import lock_endpoints, reschedule_endpoints
from services.notifier.operational_events.events import add_exhausted_events
from services.notifier.overdue_deliveries import store

FOUND = 10_000  # deliveries in one search
BATCH = 200  # deliveries in one transaction, which adds an event for each
IDLE_SECONDS = 30.0  # when nothing is left

log = Log("overdue_deliveries")


class OverdueDeliveries:
    def __init__(
        self, database: Database, wake_ups: WakeUpPublisher, schedule: Sequence[float], *, endpoint_concurrency: int
    ) -> None:
        """`schedule` is in seconds."""
        self._database = database
        self._wake_ups = wake_ups
        self._endpoint_concurrency = endpoint_concurrency
        self._schedule_seconds = sum(schedule) * (1 + JITTER)

    async def run(self) -> None:
        """Work until cancelled."""
        outage = Outage()
        while True:
            await asyncio.sleep(IDLE_SECONDS)
            with outage.tolerate("overdue_deliveries.database_unavailable", log):
                await self.exhaust()

    async def exhaust(self) -> None:
        """End deliveries until none is overdue."""
        while True:
            found = await store.find_overdue(self._database, self._schedule_seconds, FOUND)
            ended = 0
            for first in range(0, len(found), BATCH):
                began = time.monotonic()
                ended += await self._exhaust_batch(found[first : first + BATCH])
                await asyncio.sleep(time.monotonic() - began)  # leave the endpoint free for as long as it was locked
            if len(found) < FOUND or ended == 0:
                return

    async def _exhaust_batch(self, found: Sequence[store.OverdueDelivery]) -> int:
        """End deliveries, with an event for each. Return how many ended."""
        async with self._database.transaction() as connection:
            endpoints = list({each.endpoint_id for each in found})
            await lock_endpoints(connection, endpoints)
            ended = await store.exhaust_deliveries(connection, [each.id for each in found])
            await release_blocked(connection, [each.id for each in ended])
            await reschedule_endpoints(connection, endpoints, self._endpoint_concurrency)
            messages = await add_exhausted_events(connection, [each.id for each in ended])
        self._wake_ups.announce(messages)
        for each in ended:
            log_exhausted(each)
        return len(ended)


def log_exhausted(delivery: store.EndedDelivery) -> None:
    log.warning(
        "delivery.exhausted",
        delivery_id=ids.encode(ids.Kind.DELIVERY, delivery.id),
        **({} if delivery.job_id is None else {"job_id": ids.encode(ids.Kind.JOB, delivery.job_id)}),
        tenant=ids.encode(ids.Kind.TENANT, delivery.tenant_id),
        trace_id=tracing.trace_id(delivery.traceparent),
        error="the endpoint failed for the whole schedule",
    )
