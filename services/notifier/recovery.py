"""Re-sends the deliveries that failed during a receiver's outage, oldest first and throttled.

Also ends deliveries that have waited a whole schedule behind an open circuit.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

from common import ids
from common.errors import Unavailable
from common.postgres.database import Connection, Database
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.telemetry import tracing
from common.telemetry.logs import Log
from services.notifier.operational_events import add_exhausted_events
from services.notifier.retry_schedule import JITTER
from services.notifier.store import recovery as store
from services.notifier.store.endpoints import lock_endpoints, make_endpoint_due

TICK_SECONDS = 1.0
SKEW = timedelta(hours=1)  # an id's time may differ from the database's by this much
OVERDUE_LIMIT = 500  # deliveries ended at a time
OVERDUE_TICKS = 30  # between two searches for overdue deliveries

log = Log("recovery")


class Recovery:
    def __init__(
        self,
        database: Database,
        wake_ups: WakeUpPublisher,
        wake: Callable[[], None],
        *,
        rate: float,
        schedule: Sequence[float],
    ) -> None:
        """`rate` is in deliveries a second for each subscription. `schedule` is in seconds."""
        self._database = database
        self._wake_ups = wake_ups
        self._wake = wake
        self._batch_size = max(1, round(rate * TICK_SECONDS))
        self._schedule_seconds = sum(schedule) * (1 + JITTER)

    async def run(self) -> None:
        """Advance recoveries until cancelled. Any notifier continues where another stopped."""
        ticks = 0
        while True:
            await asyncio.sleep(TICK_SECONDS)
            ticks += 1
            try:
                while await self.advance():
                    pass
                if ticks % OVERDUE_TICKS == 0:
                    await self.exhaust_overdue()
            except Unavailable as error:
                log.warning("recovery.database_unavailable", error=error)

    async def advance(self) -> bool:
        """Re-send the next batch of one recovery. Return False if none was due."""
        async with self._database.transaction() as connection:
            found = await store.lock_next_recovery(connection)
            if found is None:
                return False
            requeued, done = await self._requeue_batch(connection, found)
            position = requeued[-1] if requeued else found.last_delivery_id
            await store.advance_recovery(connection, found.id, position, len(requeued), None if done else TICK_SECONDS)
        webhook_id = ids.encode(ids.Kind.WEBHOOK, found.webhook_id)
        log.info("recovery.advanced", webhook_id=webhook_id, count=len(requeued), done=done)
        self._wake()
        return True

    async def _requeue_batch(self, connection: Connection, found: store.RecoveryState) -> tuple[list[UUID], bool]:
        """Re-queue the next batch. Return its ids in order, and whether it was the last.

        Re-queue none while a whole batch is due already, so new deliveries wait behind one batch at most.
        """
        endpoint = found.webhook_id
        await lock_endpoints(connection, [endpoint])
        room = self._batch_size - await store.count_due(connection, endpoint, self._batch_size)
        if room <= 0:
            return [], False
        first, last = found.last_delivery_id or ids.earliest(found.since - SKEW), ids.earliest(found.until + SKEW)
        selection = store.DeliverySelection(endpoint, first, last, found.since, found.until, "webhook.test", room)
        requeued = await store.requeue_deliveries(connection, selection)
        if requeued:
            await make_endpoint_due(connection, endpoint)
        return requeued, len(requeued) < room

    async def exhaust_overdue(self) -> None:
        """End deliveries that have waited a whole schedule behind an open circuit."""
        found = await store.find_overdue(self._database, self._schedule_seconds, OVERDUE_LIMIT)
        if not found:
            return
        async with self._database.transaction() as connection:
            await lock_endpoints(connection, list({each.endpoint_id for each in found}))
            ended = await store.exhaust_deliveries(connection, [each.id for each in found])
            messages = await add_exhausted_events(connection, [each.id for each in ended])
        self._wake_ups.announce(messages)
        for each in ended:
            log_exhausted(each)


def log_exhausted(delivery: store.EndedDelivery) -> None:
    log.warning(
        "delivery.exhausted",
        delivery_id=ids.encode(ids.Kind.DELIVERY, delivery.id),
        **({} if delivery.job_id is None else {"job_id": ids.encode(ids.Kind.JOB, delivery.job_id)}),
        tenant=ids.encode(ids.Kind.TENANT, delivery.tenant_id),
        trace_id=tracing.trace_id(delivery.traceparent),
        error="the endpoint failed for the whole schedule",
    )
