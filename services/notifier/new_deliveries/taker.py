"""Takes new deliveries, which the database inserts with their event. `DeliveryWorker` sends them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import assert_never
from uuid import UUID

from opentelemetry.trace import SpanKind

from common import ids
from common.errors import Retry, Unavailable, UnknownMessage
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
from common.telemetry.outage import Outage
from services.notifier import metrics
from services.notifier.deliveries.worker import DeliveryWorker
from services.notifier.new_deliveries.store import RECEIVERS, NewClaims, NewDeliveryStore, Scheduled
from services.notifier.new_deliveries.waiting_events import WaitingEvents

PAUSE_SECONDS = 1.0  # before a message returns to the queue while the database is unavailable
MISSED_SECONDS = 2.0  # before that, the message of a delivery's event may still arrive
MISSED_LIMIT = 500
SWEEP_SECONDS = 1.0
WIDE_EVENTS = 10  # whose further receivers one statement schedules
WIDE_RECEIVERS = 100  # of each
MAX_WIDE = 20_000  # events that wait for this; the sweep finds the deliveries of others
CHECK_SECONDS = 1.0  # until another notifier looks at what one without a free slot has scheduled
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

    A message wakes it. A sweep finds deliveries whose message was lost. An event with many receivers
    delays no other: most of them are scheduled afterwards, in bites, and tenants take turns.
    """

    def __init__(self, store: NewDeliveryStore, worker: DeliveryWorker, first_delay: float) -> None:
        """`first_delay`: seconds before a delivery's first attempt."""
        self._store = store
        self._worker = worker
        self._first_delay = first_delay
        self._batches: Batcher[tuple[UUID, str], None] = Batcher(self._take_batch, name="new deliveries")
        self._wide = WaitingEvents(MAX_WIDE)
        self._has_wide = asyncio.Event()

    async def handle(self, message: Message, traceparent: str | None) -> None:
        """Return after the deliveries are taken."""
        match message:
            case EventsRecorded([event]):
                await self._submit(event.id, traceparent or event.traceparent)
            case EventsRecorded(events):
                await self._submit_many([(event.id, event.traceparent) for event in events])
            case JobsQueued() | CancelJob() | WaitersPresent() | JobsChanged() | KeysRevoked():
                raise UnknownMessage(f"a {type(message).__name__} is no message about events")
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
        """Claim what can be sent at once, and start it. Schedule the rest, and let the worker's loop look at it."""
        traceparents, taken = dict(events), NewClaims(len(events), 0, [])
        rooms = self._worker.find_rooms()
        with self._worker.reserve_for_new(RECEIVERS * len(events)) as slots:
            if slots > 0 and self._first_delay == 0:
                limits = self._worker.lease, self._worker.endpoint_concurrency
                taken = await self._store.claim(traceparents, slots, *limits, rooms)
        self._worker.start(taken.claims)
        if taken.found > len(taken.claims) or taken.most == RECEIVERS:
            self._note(traceparents, await self._store.schedule(traceparents, self._first_delay, CHECK_SECONDS))
        metrics.events_taken.inc(len(events))
        return [None] * len(events)

    def _note(self, events: Mapping[UUID, str], scheduled: Scheduled) -> None:
        """Let the worker look at the endpoints. Keep the events that may have more new deliveries."""
        self._worker.due.add(scheduled.endpoints)
        for tenant, event in scheduled.wide:
            self._wide.add(tenant, event, events[event])
            self._has_wide.set()

    async def schedule_wide(self) -> None:
        """Schedule the further receivers of events in bites, until cancelled."""
        while True:
            await self._has_wide.wait()
            events = self._wide.take(WIDE_EVENTS)
            if not events:
                self._has_wide.clear()
                continue
            limits = self._first_delay, CHECK_SECONDS, WIDE_RECEIVERS
            try:
                self._note(events, await self._store.schedule(events, *limits))
            except Unavailable as error:  # the sweep finds their deliveries
                log.warning("new_deliveries.database_unavailable", error=error)
                await asyncio.sleep(PAUSE_SECONDS)

    async def sweep(self) -> None:
        """Take deliveries whose message was lost, until cancelled."""
        sweeps, outage = 0, Outage()
        while True:
            missed = 0
            with outage.tolerate("new_deliveries.database_unavailable", log):
                missed = await self._take_missed()
                sweeps += 1
                if sweeps % CHECK_SWEEPS == 0 and (
                    count := await self._store.check_missed_endpoints(self._worker.lease)
                ):
                    log.warning("new_deliveries.endpoints_missed", count=count)
            if missed < MISSED_LIMIT:
                await asyncio.sleep(SWEEP_SECONDS)

    async def _take_missed(self) -> int:
        """Return the number of deliveries that were found. An event that fails alone fails no other."""
        found = await self._store.find(MISSED_SECONDS, MISSED_LIMIT)
        missed = [(event, traceparent) for event, traceparent in found if event not in self._wide]
        if not missed:
            return 0
        log.warning("new_deliveries.missed", count=len(missed))
        events = list(dict(missed).items())
        results = await asyncio.gather(*(self._batches.submit(event) for event in events), return_exceptions=True)
        errors = [result for result in results if isinstance(result, Exception)]
        for error in errors:
            if isinstance(error, Unavailable):
                raise error
            log.exception("new_deliveries.event_failed", error)
        return 0 if errors else len(missed)
