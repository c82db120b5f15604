"""Event → deliveries, one for each receiver; `Outbound` sends them."""

import asyncio
from collections.abc import Sequence
from typing import assert_never
from uuid import UUID

from opentelemetry.trace import SpanKind

from common import ids, topology, tracing
from common.batching import Batcher
from common.errors import Reject, Retry, Unavailable
from common.logs import Log
from common.messages import CancelJob, JobEvent, JobEvents, JobQueued, JobsChanged, JobsQueued, Listening, Message
from services.notifier import metrics
from services.notifier.outbound import Outbound
from services.notifier.store import FannedOut, Store

PAUSE_SECONDS = 1.0  # before a message goes back to the queue while the database is away
UNHEARD_SECONDS = 60.0  # until then an event's message may still be on its way
UNHEARD_LIMIT = 500
SWEEP_SECONDS = 15.0
ATTRIBUTES = {
    "messaging.system": "rabbitmq",
    "messaging.operation.type": "process",
    "messaging.operation.name": "process",
    "messaging.destination.name": topology.NOTIFIER_QUEUE,
}

log = Log("fanout")


class Fanout:
    def __init__(self, store: Store, outbound: Outbound, first_delay: float) -> None:
        """`first_delay` (seconds) is before a delivery's first attempt."""
        self.store = store
        self.outbound = outbound
        self.first_delay = first_delay
        self.batches: Batcher[tuple[UUID, str], None] = Batcher(self.add, name="fan-out")

    async def handle(self, message: Message, traceparent: str | None) -> None:
        """Returns once the deliveries are committed."""
        match message:
            case JobEvent():
                await self.take(message.event_id, traceparent)
            case JobEvents():
                await self.take_all(message.events)
            case JobQueued() | JobsQueued() | CancelJob() | Listening() | JobsChanged():
                raise Reject("the notifier takes events only")
            case _:
                assert_never(message)

    async def take(self, event_id: UUID, traceparent: str | None) -> None:
        context = tracing.context_of(traceparent)
        name = f"process {topology.NOTIFIER_QUEUE}"
        attributes = ATTRIBUTES | {"charonia.event_id": ids.show(ids.Kind.EVENT, event_id)}
        with tracing.begin(name, context, SpanKind.CONSUMER, attributes) as span:
            try:
                await self.batches.submit((event_id, tracing.show(span)))
            except Unavailable as error:
                tracing.fail(span, type(error).__name__)
                await asyncio.sleep(PAUSE_SECONDS)  # else the broker would hand it back at once, in a hot loop
                raise Retry(f"the event was not fanned out: {error}") from error

    async def take_all(self, events: Sequence[tuple[UUID, str]]) -> None:
        """Those that came together, which nobody traces."""
        try:
            await asyncio.gather(*(self.batches.submit(event) for event in events))
        except Unavailable as error:
            await asyncio.sleep(PAUSE_SECONDS)
            raise Retry(f"{len(events)} events were not fanned out: {error}") from error

    async def add(self, events: list[tuple[UUID, str]]) -> list[None]:
        """What may be sent at once is handed over, the rest waits for its claim."""
        traces = dict(events)
        delay, lease, each = self.first_delay, self.outbound.lease, self.outbound.each
        with self.outbound.offer(len(events)) as room:
            fanned = await self.store.fan_out(traces, delay, lease, each, room)
        self.begin(fanned)
        if fanned.left:
            with self.outbound.offer(len(events)) as room:
                fanned = await self.store.fan_out_left(fanned.left, traces, delay, lease, each, room)
            self.begin(fanned)
        metrics.events_fanned_out.inc(len(events))
        return [None] * len(events)

    def begin(self, fanned: FannedOut) -> None:
        self.outbound.begin(fanned.claims)
        if fanned.due:
            self.outbound.wake()

    async def sweep(self) -> None:
        """Fans out events whose message never came, until cancelled: a message may be lost, an event may not."""
        while True:
            try:
                if events := await self.store.find_unheard(UNHEARD_SECONDS, UNHEARD_LIMIT):
                    await self.add(list(events.items()))
                    log.warning("events.unheard", count=len(events))
            except Unavailable as error:
                log.warning("events.sweep_waits", error=error)
            await asyncio.sleep(SWEEP_SECONDS)
