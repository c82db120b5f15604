"""Completes a batch once, after all its jobs have ended."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import msgspec

from common import ids
from common.job_states import TERMINAL
from common.postgres.database import Connection
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.wake_ups import WakeUpPublisher, event_wake_up
from common.telemetry import tracing
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from common.views.batch import BatchBody, Counts, view_batch
from common.views.job import format_time
from services.dispatcher.maintenance.batches.store import BatchStore, CompletedBatch, LockedBatch

SCAN = 1000  # open batches examined in one scan
BATCH = 50  # completed in one transaction
COMPLETED = "batch.completed"
FIRST = UUID(int=0)

log = Log("batch")


class BatchCompleter:
    """Scans all open batches in turn, however many there are. It keeps its position between two scans."""

    def __init__(
        self, store: BatchStore, wake_ups: WakeUpPublisher, changes: ChangePublisher, public_url: str, interval: float
    ) -> None:
        """`interval` is in seconds. `public_url` is the prefix of a batch's URLs."""
        self._store = store
        self._wake_ups = wake_ups
        self._changes = changes
        self._public_url = public_url
        self._interval = interval
        self._after = FIRST
        self._outage = Outage()

    async def run(self) -> None:
        """Scan at intervals, until cancelled."""
        while True:
            with self._outage.tolerate("batch.database_unavailable", log):
                await self.scan()
            await asyncio.sleep(self._interval)

    async def scan(self) -> int:
        """Complete the next open batches whose jobs have all ended. Return how many."""
        found = await self._store.find_open(self._after, SCAN)
        done = [batch.id for batch in found if batch.done]
        completed = 0
        for start in range(0, len(done), BATCH):
            completed += await self.complete(done[start : start + BATCH])
        self._after = found[-1].id if len(found) == SCAN else FIRST
        return completed

    async def complete(self, batches: Sequence[UUID]) -> int:
        """Complete the given batches, except those that another instance completes. Return how many."""
        async with self._store.transaction() as connection:
            locked = await self._store.lock(connection, batches)
            completed = await self._record_completed(connection, locked) if locked else []
        self._wake_ups.announce(event_wake_up(each.event_id, each.type, each.traceparent) for each in completed)
        self._changes.notify(each.id for each in completed)
        ends = {each.id for each in completed}
        for batch in locked:
            if batch.row.id in ends:
                log.info(
                    "batch.completed",
                    batch_id=ids.encode(ids.Kind.BATCH, batch.row.id),
                    accepted=batch.row.accepted,
                    tenant=ids.encode(ids.Kind.TENANT, batch.tenant),
                    trace_id=tracing.trace_id(batch.traceparent),
                )
        return len(completed)

    async def _record_completed(self, connection: Connection, locked: Sequence[LockedBatch]) -> list[CompletedBatch]:
        """Save the ends of batches whose jobs have ended and were not retried since. Return them, to be announced."""
        counts = await self._store.count_jobs(connection, [batch.row.id for batch in locked])
        completed = [
            self._build(batch, counts.get(batch.row.id, {}))
            for batch in locked
            if TERMINAL.issuperset(counts.get(batch.row.id, {}))
        ]
        await self._store.save_completed(connection, completed)
        return completed

    def _build(self, batch: LockedBatch, counts: Counts) -> CompletedBatch:
        event_id = ids.new()
        view = view_batch(batch.row, counts, self._public_url)
        body = msgspec.json.encode(BatchBody(COMPLETED, format_time(batch.now), view))
        return CompletedBatch(batch.row.id, batch.row.finished_at, event_id, COMPLETED, body, batch.traceparent)
