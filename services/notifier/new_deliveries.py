"""Takes new deliveries, which the database inserts with their event. `DeliveryWorker` sends them."""

import asyncio
from collections.abc import Sequence
from typing import assert_never
from uuid import UUID

from opentelemetry.trace import SpanKind

from common import ids
from common.errors import Reject, Retry, Unavailable
from common.postgres.batcher import Batcher
from common.rabbitmq import topology
from common.rabbitmq.messages import (
    CancelJob,
    EventsRecorded,
    JobsChanged,
    JobsQueued,
    KeysRevoked,
    Message,
    WaitersPresent,
)
from common.telemetry import tracing
from common.telemetry.logs import Log
from services.notifier import metrics
from services.notifier.delivery_worker import DeliveryWorker
from services.notifier.store.new_deliveries import NewClaims, NewDeliveryStore

PAUSE_SECONDS = 1.0  # before a message returns to the queue while the database is unavailable
MISSED_SECONDS = 2.0  # before that, the message of a delivery's event may still arrive
MISSED_LIMIT = 500
SWEEP_SECONDS = 1.0
CHECK_SWEEPS = 60  # sweeps between two searches for endpoints that nobody checks
ATTRIBUTES = {
    "messaging.system": "rabbitmq",
    "messaging.operation.type": "process",
    "messaging.operation.name": "process",
    "messaging.destination.name": topology.NOTIFIER_QUEUE,
}

log = Log("new_deliveries")


class NewDeliveries:
    """Claims each new delivery if it can be sent at once, and schedules it otherwise.

    A message wakes it. A sweep finds deliveries whose message was lost.
    """

    def __init__(self, store: NewDeliveryStore, worker: DeliveryWorker, first_delay: float) -> None:
        """`first_delay`: seconds before a delivery's first attempt."""
        self._store = store
        self._worker = worker
        self._first_delay = first_delay
        self._batches: Batcher[tuple[UUID, str], None] = Batcher(self._take_batch, name="new deliveries")

    async def handle(self, message: Message, traceparent: str | None) -> None:
        """Return after the deliveries are taken."""
        match message:
            case EventsRecorded([(event_id, own)]):
                await self._submit(event_id, traceparent or own)
            case EventsRecorded():
                await self._submit_many(message.events)
            case JobsQueued() | CancelJob() | WaitersPresent() | JobsChanged() | KeysRevoked():
                raise Reject("the notifier accepts event messages only")
            case _:
                assert_never(message)

    async def _submit(self, event_id: UUID, traceparent: str | None) -> None:
        context = tracing.to_context(traceparent)
        name = f"process {topology.NOTIFIER_QUEUE}"
        attributes = ATTRIBUTES | {"charonia.event_id": ids.encode(ids.Kind.EVENT, event_id)}
        with tracing.start_span(name, context, SpanKind.CONSUMER, attributes) as span:
            try:
                await self._batches.submit((event_id, tracing.to_traceparent(span)))
            except Unavailable as error:
                tracing.record_error(span, type(error).__name__)
                await asyncio.sleep(PAUSE_SECONDS)  # otherwise the broker returns the message at once, in a tight loop
                raise Retry(f"the event's deliveries were not taken: {error}") from error

    async def _submit_many(self, events: Sequence[tuple[UUID, str]]) -> None:
        """Submit the events of one message. None of them is traced."""
        try:
            await asyncio.gather(*(self._batches.submit(event) for event in events))
        except Unavailable as error:
            await asyncio.sleep(PAUSE_SECONDS)
            raise Retry(f"the deliveries of {len(events)} events were not taken: {error}") from error

    async def _take_batch(self, events: list[tuple[UUID, str]]) -> list[None]:
        await self._take(events)
        return [None] * len(events)

    async def _take(self, events: Sequence[tuple[UUID, str]]) -> int:
        """Claim what can be sent at once, and start it. Schedule the rest, and let the worker's loop look at it.

        Return how many deliveries were taken. Locked ones are not.
        """
        traceparents, taken = dict(events), NewClaims(len(events), [])
        with self._worker.reserve_for_new(len(events)) as slots:
            if slots > 0 and self._first_delay == 0:
                limits = self._worker.lease, self._worker.endpoint_concurrency
                taken = await self._store.claim(traceparents, slots, *limits)
        self._worker.start(taken.claims)
        if taken.found > len(taken.claims):
            endpoints = await self._store.schedule(traceparents, self._first_delay, self._worker.lease)
            self._worker.due.add(endpoints)
        metrics.events_taken.inc(len(events))
        return taken.found

    async def sweep(self) -> None:
        """Take deliveries whose message was lost, until cancelled."""
        sweeps = 0
        while True:
            try:
                missed = await self._take_missed()
                sweeps += 1
                if sweeps % CHECK_SWEEPS == 0 and (
                    count := await self._store.check_missed_endpoints(self._worker.lease)
                ):
                    log.warning("new_deliveries.endpoints_missed", count=count)
            except Unavailable as error:
                log.warning("new_deliveries.database_unavailable", error=error)
                missed = 0
            if missed < MISSED_LIMIT:
                await asyncio.sleep(SWEEP_SECONDS)

    async def _take_missed(self) -> int:
        """Return the number of deliveries that were taken."""
        missed = await self._store.find(MISSED_SECONDS, MISSED_LIMIT)
        if not missed:
            return 0
        log.warning("new_deliveries.missed", count=len(missed))
        return await self._take(list(dict(missed).items()))
