"""Creates the deliveries of an event, one for each receiver. `DeliveryWorker` sends them."""

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
    JobEvent,
    JobEvents,
    JobQueued,
    JobsChanged,
    JobsQueued,
    Message,
    WaitersPresent,
)
from common.telemetry import tracing
from common.telemetry.logs import Log
from services.notifier import metrics
from services.notifier.delivery_worker import DeliveryWorker
from services.notifier.store.fanout import ClaimOptions, FanoutResult, FanoutStore

PAUSE_SECONDS = 1.0  # before a message returns to the queue while the database is unavailable
MISSED_SECONDS = 60.0  # before that, an event's message may still arrive
MISSED_LIMIT = 500
SWEEP_SECONDS = 15.0
ATTRIBUTES = {
    "messaging.system": "rabbitmq",
    "messaging.operation.type": "process",
    "messaging.operation.name": "process",
    "messaging.destination.name": topology.NOTIFIER_QUEUE,
}

log = Log("fanout")


class Fanout:
    def __init__(self, store: FanoutStore, worker: DeliveryWorker, first_delay: float) -> None:
        """`first_delay`: seconds before a delivery's first attempt."""
        self._store = store
        self._worker = worker
        self._first_delay = first_delay
        self._batches: Batcher[tuple[UUID, str], None] = Batcher(self._fan_out, name="fan-out")

    async def handle(self, message: Message, traceparent: str | None) -> None:
        """Return after the deliveries are committed."""
        match message:
            case JobEvent():
                await self._submit(message.event_id, traceparent)
            case JobEvents():
                await self._submit_many(message.events)
            case JobQueued() | JobsQueued() | CancelJob() | WaitersPresent() | JobsChanged():
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
                raise Retry(f"the event was not fanned out: {error}") from error

    async def _submit_many(self, events: Sequence[tuple[UUID, str]]) -> None:
        """Submit the events of one message. None of them is traced."""
        try:
            await asyncio.gather(*(self._batches.submit(event) for event in events))
        except Unavailable as error:
            await asyncio.sleep(PAUSE_SECONDS)
            raise Retry(f"{len(events)} events were not fanned out: {error}") from error

    async def _fan_out(self, events: list[tuple[UUID, str]]) -> list[None]:
        """Create the deliveries. Start those that were claimed; the others wait for the worker's loop."""
        traceparents = dict(events)
        with self._worker.reserve_for_fanout(len(events)) as slots:
            result = await self._store.fan_out(traceparents, self._options(slots))
        self._start(result)
        if result.deferred:
            with self._worker.reserve_for_fanout(len(events)) as slots:
                result = await self._store.fan_out_with_locks(result.deferred, traceparents, self._options(slots))
            self._start(result)
        metrics.events_fanned_out.inc(len(events))
        return [None] * len(events)

    def _options(self, slots: int) -> ClaimOptions:
        return ClaimOptions(self._first_delay, self._worker.lease, self._worker.endpoint_concurrency, slots)

    def _start(self, result: FanoutResult) -> None:
        self._worker.start(result.claims)
        if result.due:
            self._worker.wake()

    async def sweep(self) -> None:
        """Fan out events whose message was lost, until cancelled."""
        while True:
            try:
                if events := await self._store.find_missed_events(MISSED_SECONDS, MISSED_LIMIT):
                    await self._fan_out(list(events.items()))
                    log.warning("events.missed", count=len(events))
            except Unavailable as error:
                log.warning("fanout.database_unavailable", error=error)
            await asyncio.sleep(SWEEP_SECONDS)
