"""The outbox: messages committed together with the change they announce.

The committing process publishes at once, one message for several rows where it can, and deletes them on the broker's
confirm. The relay, in every service, publishes what is left over, so a crash or an absent broker between commit and
publish loses nothing.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

import msgspec
from opentelemetry.trace import SpanKind

from common import ids, messages, sql, topology, tracing
from common.batching import Batcher
from common.broker import Publisher
from common.database import Database
from common.errors import BrokerUnavailable, Unavailable, Unroutable
from common.jobs import Priority
from common.logs import Log
from common.messages import CancelJob, JobEvent, JobEvents, JobQueued, JobsQueued

QUERIES = sql.load("common", "outbox.sql")
IN_FLIGHT = 1000  # publishes of this process at a time; what is over that is left to the relay
WAVE = 250  # of many messages: the others of this process find room between two
CROWD = 2_000  # rows that wait for their wave, from which on whoever brings many is to slow down
MOST_WAITING = 20_000  # rows that wait so; what is over that is left to the relay
RELAY_BATCH = 500
RELAY_SECONDS = 1.0
POSTPONE_SECONDS = 10.0
CONFIRM_SECONDS = 0.1  # confirmed rows are gathered for so long, far below the time after which a relay takes them
JOBS_TOGETHER = 8
EVENTS_TOGETHER = 50

log = Log("outbox")


class OutboxRow(msgspec.Struct, frozen=True):
    id: UUID
    exchange: str
    routing_key: str
    body: bytes
    traceparent: str
    together: int = 1  # how many of its kind one message may ring for, where they are announced at once


def spread(row: OutboxRow) -> tuple[object, ...]:
    """Its columns, in the order of the statements that insert it."""
    return row.id, row.exchange, row.routing_key, row.body, row.traceparent


def ring_job(job_id: UUID, priority: Priority, model: str, traceparent: str, together: int = 1) -> OutboxRow:
    """The doorbell for a job that may be claimed.

    `together` is what the model runs in one batch: more would wait with one dispatcher while another has room.
    """
    body, key = messages.encode(JobQueued(job_id)), topology.job_key(priority, model)
    return OutboxRow(ids.new(), topology.JOBS, key, body, traceparent, min(together, JOBS_TOGETHER))


def ring_event(event_id: UUID, event_type: str, traceparent: str) -> OutboxRow:
    """The doorbell for an event that was recorded."""
    body = messages.encode(JobEvent(event_id))
    return OutboxRow(ids.new(), topology.EVENTS, event_type, body, traceparent, EVENTS_TOGETHER)


def ring_cancel(job_id: UUID, traceparent: str) -> OutboxRow:
    """The doorbell for a running job that is to be canceled."""
    return OutboxRow(ids.new(), topology.CONTROL, "job.cancel", messages.encode(CancelJob(job_id)), traceparent)


def gather(rows: Iterable[OutboxRow]) -> Iterator[list[OutboxRow]]:
    """Rows that may share a message: of one kind and one way. What is traced has its own, and so a span of its own."""
    groups: dict[tuple[str, str], list[OutboxRow]] = {}
    for row in rows:
        if row.together <= 1 or tracing.is_sampled(row.traceparent):
            yield [row]
            continue
        way = row.exchange, row.routing_key
        group = groups.setdefault(way, [])
        group.append(row)
        if len(group) >= row.together:
            yield groups.pop(way)
    yield from groups.values()


def merge(rows: Sequence[OutboxRow]) -> bytes:
    """The body of one message for several."""
    jobs, events = [], []
    for row in rows:
        match messages.decode(row.body):
            case JobQueued(job_id):
                jobs.append(job_id)
            case JobEvent(event_id):
                events.append((event_id, row.traceparent))
            case other:
                raise TypeError(f"a {type(other).__name__} rings by itself")
    return messages.encode(JobsQueued(jobs) if jobs else JobEvents(events))


class Outbox:
    def __init__(self, database: Database, publisher: Publisher) -> None:
        self.database = database
        self.publisher = publisher
        self.waiting = 0  # rows of announce_many
        self.sending: set[asyncio.Task[None]] = set()
        self.forgetting: set[asyncio.Task[None]] = set()
        self.confirmations: Batcher[Sequence[UUID], None] = Batcher(
            self.confirm, name="confirms", limit=500, delay=CONFIRM_SECONDS
        )

    def announce(self, rows: Iterable[OutboxRow]) -> None:
        """Publishes rows just committed, without waiting: a slow broker must not slow down who committed them."""
        for group in gather(rows):
            if len(self.sending) >= IN_FLIGHT or not self.publisher.link.is_up:
                return
            task = asyncio.create_task(self.send(group))
            self.sending.add(task)
            task.add_done_callback(self.sending.discard)

    async def announce_many(self, rows: Sequence[OutboxRow]) -> None:
        """As announce, for more than are to be on their way at a time."""
        if self.waiting + len(rows) > MOST_WAITING:
            return
        self.waiting += len(rows)
        left = len(rows)
        try:
            for start in range(0, len(rows), WAVE):
                self.announce(wave := rows[start : start + WAVE])
                if self.sending:
                    await asyncio.wait(tuple(self.sending))
                self.waiting -= len(wave)
                left -= len(wave)
        finally:
            self.waiting -= left

    @property
    def is_crowded(self) -> bool:
        return self.waiting > CROWD

    async def send(self, rows: Sequence[OutboxRow]) -> None:
        if await (self.publish(rows[0]) if len(rows) == 1 else self.publish_one_for(rows)):
            forgetting = asyncio.create_task(self.forget([row.id for row in rows]))
            self.forgetting.add(forgetting)
            forgetting.add_done_callback(self.forgetting.discard)

    async def forget(self, rows: Sequence[UUID]) -> None:
        """Deletes rows that the broker has; who publishes does not wait for it."""
        try:
            await self.confirmations.submit(rows)
        except Unavailable as error:
            log.warning("outbox.not_confirmed", id=rows[0], error=error)  # published again: harmless

    async def confirm(self, groups: list[Sequence[UUID]]) -> list[None]:
        await self.database.fetch(QUERIES["confirm"], [row for group in groups for row in group])
        return [None] * len(groups)

    async def publish(self, row: OutboxRow) -> bool:
        """Whether the broker took it."""
        attributes = {
            "messaging.system": "rabbitmq",
            "messaging.operation.type": "send",
            "messaging.operation.name": "send",
            "messaging.destination.name": row.exchange,
            "messaging.rabbitmq.destination.routing_key": row.routing_key,
            "messaging.message.id": str(row.id),
        }
        context = tracing.context_of(row.traceparent)
        with tracing.begin(f"send {row.exchange}", context, SpanKind.PRODUCER, attributes) as span:
            error = await self.hand_over(row, row.body, {"traceparent": tracing.show(span)})
            if error is not None:
                tracing.fail(span, type(error).__name__)
        return error is None

    async def publish_one_for(self, rows: Sequence[OutboxRow]) -> bool:
        """One message for several rows, under the id of the first; whether the broker took it."""
        return await self.hand_over(rows[0], merge(rows), {}) is None

    async def hand_over(self, row: OutboxRow, body: bytes, headers: dict[str, str]) -> Exception | None:
        """Why the broker did not take it."""
        try:
            await self.publisher.publish(row.exchange, row.routing_key, body, message_id=row.id, headers=headers)
        except (BrokerUnavailable, Unroutable) as error:
            log.warning("message.not_published", routing_key=row.routing_key, error=error)
            return error
        return None

    async def relay(self) -> None:
        """Publishes what was left over, until cancelled."""
        while True:
            try:
                taken = await self.sweep() if self.publisher.link.is_up else 0
            except Unavailable as error:
                log.warning("outbox.relay_waits", error=error)
                taken = 0
            if taken < RELAY_BATCH:
                await asyncio.sleep(RELAY_SECONDS)

    async def sweep(self) -> int:
        """Publishes one batch of due rows; how many the broker took."""
        async with self.database.transaction() as connection:
            found = await connection.fetch(QUERIES["take_due"], RELAY_BATCH)
            rows = [OutboxRow(**record) for record in found]
            taken = await asyncio.gather(*(self.publish(row) for row in rows))
            sent = [row.id for row, ok in zip(rows, taken, strict=True) if ok]
            left = [row.id for row, ok in zip(rows, taken, strict=True) if not ok]
            if sent:
                await connection.execute(QUERIES["confirm"], sent)
            if left:
                await connection.execute(QUERIES["postpone"], left, POSTPONE_SECONDS)
        if rows:
            log.info("outbox.relayed", sent=len(sent), left=len(left))
        return len(sent)

    async def drain(self, seconds: float) -> None:
        """Waits for publishes under way; what is not confirmed by then is the relay's."""
        deadline = asyncio.get_running_loop().time() + seconds
        while under_way := self.sending | self.forgetting:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return
            await asyncio.wait(under_way, timeout=left)
