"""Re-sends the deliveries that failed during a receiver's outage, oldest first and throttled."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from common import ids
from common.postgres.database import Connection, Database
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.notifier.endpoints.store import lock_endpoints, make_endpoint_due
from services.notifier.recovery import store

TICK_SECONDS = 1.0
SKEW = timedelta(hours=1)  # an id's time may differ from the database's by this much

log = Log("recovery")


class Recovery:
    def __init__(self, database: Database, wake: Callable[[], None], *, rate: float) -> None:
        """`rate` is in deliveries a second for each subscription."""
        self._database = database
        self._wake = wake
        self._batch_size = max(1, round(rate * TICK_SECONDS))

    async def run(self) -> None:
        """Advance recoveries until cancelled. Another notifier continues where this one stopped."""
        outage = Outage()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            with outage.tolerate("recovery.database_unavailable", log):
                while await self.advance():
                    pass

    async def advance(self) -> bool:
        """Re-send the next batch of one recovery. Return False if none was due.

        Lock the endpoint before the recovery: a deletion of the subscription does so too.
        """
        async with self._database.transaction() as connection:
            due = await store.find_next_recovery(connection)
            if due is None:
                return False
            await lock_endpoints(connection, [due.webhook_id])
            found = await store.lock_recovery(connection, due.id)
            if found is None:
                return True  # another notifier did it, or the subscription ended
            requeued, done = await self._requeue_batch(connection, found)
            position = requeued[-1] if requeued else found.last_delivery_id
            await store.advance_recovery(connection, found.id, position, len(requeued), None if done else TICK_SECONDS)
        webhook_id = ids.encode(ids.Kind.WEBHOOK, found.webhook_id)
        log.info("recovery.advanced", webhook_id=webhook_id, count=len(requeued), done=done)
        self._wake()
        return True

    async def _requeue_batch(self, connection: Connection, found: store.RecoveryState) -> tuple[list[UUID], bool]:
        """Re-queue the next batch for the locked endpoint. Return its ids in order, and whether it was the last.

        Re-queue none while a whole batch is due already, so new deliveries wait behind one batch at most.
        """
        endpoint = found.webhook_id
        room = self._batch_size - await store.count_due(connection, endpoint, self._batch_size)
        if room <= 0:
            return [], False
        first, last = found.last_delivery_id or ids.earliest(found.since - SKEW), ids.earliest(found.until + SKEW)
        selection = store.DeliverySelection(endpoint, first, last, found.since, found.until, "webhook.test", room)
        requeued = await store.requeue_deliveries(connection, selection)
        if requeued:
            await make_endpoint_due(connection, endpoint)
        return requeued, len(requeued) < room
