"""The outbox: messages that are committed with the change they announce.

The committing process publishes them at once, one message for several rows if possible. It deletes the rows when the
broker confirms. The relay, in every service, publishes the remaining rows. So neither a crash nor an outage loses a
message.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

import msgspec
from opentelemetry.trace import SpanKind

from common import ids
from common.errors import BrokerUnavailable, Unavailable, Unroutable
from common.jobs import Priority
from common.postgres import sql
from common.postgres.batcher import Batcher
from common.postgres.database import Database
from common.rabbitmq import messages, topology
from common.rabbitmq.messages import CancelJob, JobEvent, JobEvents, JobQueued, JobsQueued
from common.rabbitmq.publisher import Publisher
from common.telemetry import tracing
from common.telemetry.logs import Log

QUERIES = sql.load("common", "outbox.sql")
MAX_IN_FLIGHT = 1000  # publishes of this process at a time; the relay publishes the rest
CHUNK_SIZE = 250  # rows of announce_many at a time, so that other publishes get their share
BUSY_ROWS = 2_000  # waiting rows of announce_many, above which callers with many rows slow down
MAX_WAITING = 20_000  # waiting rows of announce_many; the relay publishes the rest
RELAY_BATCH = 500
RELAY_SECONDS = 1.0
POSTPONE_SECONDS = 10.0
CONFIRM_SECONDS = 0.1  # confirmed rows gather for this time, far less than the time until a relay takes them
MAX_JOBS_PER_MESSAGE = 8
MAX_EVENTS_PER_MESSAGE = 50

log = Log("outbox")


class OutboxRow(msgspec.Struct, frozen=True):
    """A row of the outbox. One message can announce up to `max_per_message` rows of its kind."""

    id: UUID
    exchange: str
    routing_key: str
    body: bytes
    traceparent: str
    max_per_message: int = 1


def to_values(row: OutboxRow) -> tuple[object, ...]:
    """Return the columns, in the order of the statements that insert the row."""
    return row.id, row.exchange, row.routing_key, row.body, row.traceparent


def job_wake_up(job_id: UUID, priority: Priority, model: str, traceparent: str, max_per_message: int = 1) -> OutboxRow:
    """Return the wake-up for a job that can be claimed.

    `max_per_message` is the model's batch size: more jobs could wait in one dispatcher while another is idle.
    """
    body, key = messages.encode(JobQueued(job_id)), topology.job_key(priority, model)
    limit = min(max_per_message, MAX_JOBS_PER_MESSAGE)
    return OutboxRow(ids.new(), topology.JOBS_EXCHANGE, key, body, traceparent, limit)


def event_wake_up(event_id: UUID, event_type: str, traceparent: str) -> OutboxRow:
    """Return the wake-up for an event."""
    body = messages.encode(JobEvent(event_id))
    return OutboxRow(ids.new(), topology.EVENTS_EXCHANGE, event_type, body, traceparent, MAX_EVENTS_PER_MESSAGE)


def cancel_message(job_id: UUID, traceparent: str) -> OutboxRow:
    """Return the message that cancels a running job."""
    return OutboxRow(
        ids.new(), topology.CONTROL_EXCHANGE, "job.cancel", messages.encode(CancelJob(job_id)), traceparent
    )


def group_rows(rows: Iterable[OutboxRow]) -> Iterator[list[OutboxRow]]:
    """Group rows that can share a message, by exchange and routing key. A sampled row has its own message and span."""
    groups: dict[tuple[str, str], list[OutboxRow]] = {}
    for row in rows:
        if row.max_per_message <= 1 or tracing.is_sampled(row.traceparent):
            yield [row]
            continue
        route = row.exchange, row.routing_key
        group = groups.setdefault(route, [])
        group.append(row)
        if len(group) >= row.max_per_message:
            yield groups.pop(route)
    yield from groups.values()


def merge_bodies(rows: Sequence[OutboxRow]) -> bytes:
    """Return the body of one message for several rows."""
    jobs, events = [], []
    for row in rows:
        match messages.decode(row.body):
            case JobQueued(job_id):
                jobs.append(job_id)
            case JobEvent(event_id):
                events.append((event_id, row.traceparent))
            case other:
                raise TypeError(f"a {type(other).__name__} cannot share a message")
    return messages.encode(JobsQueued(jobs) if jobs else JobEvents(events))


class Outbox:
    """Publishes committed rows."""

    def __init__(self, database: Database, publisher: Publisher) -> None:
        self._database = database
        self._publisher = publisher
        self._waiting = 0  # rows of announce_many
        self._sending: set[asyncio.Task[None]] = set()
        self._deleting: set[asyncio.Task[None]] = set()
        self._confirmations: Batcher[Sequence[UUID], None] = Batcher(
            self._delete_batch, name="confirms", limit=500, delay=CONFIRM_SECONDS
        )

    def announce(self, rows: Iterable[OutboxRow]) -> None:
        """Publish rows that were just committed. Return at once: a slow broker must not slow the caller down."""
        for group in group_rows(rows):
            if len(self._sending) >= MAX_IN_FLIGHT or not self._publisher.connection.is_up:
                return
            task = asyncio.create_task(self._send(group))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def announce_many(self, rows: Sequence[OutboxRow]) -> None:
        """Publish many rows, a chunk at a time."""
        if self._waiting + len(rows) > MAX_WAITING:
            return
        self._waiting += len(rows)
        left = len(rows)
        try:
            for start in range(0, len(rows), CHUNK_SIZE):
                self.announce(chunk := rows[start : start + CHUNK_SIZE])
                if self._sending:
                    await asyncio.wait(tuple(self._sending))
                self._waiting -= len(chunk)
                left -= len(chunk)
        finally:
            self._waiting -= left

    @property
    def is_busy(self) -> bool:
        """Whether callers with many rows should wait."""
        return self._waiting > BUSY_ROWS

    async def _send(self, rows: Sequence[OutboxRow]) -> None:
        if await (self.publish(rows[0]) if len(rows) == 1 else self._publish_group(rows)):
            deleting = asyncio.create_task(self._delete([row.id for row in rows]))
            self._deleting.add(deleting)
            deleting.add_done_callback(self._deleting.discard)

    async def _delete(self, rows: Sequence[UUID]) -> None:
        """Delete rows that the broker has confirmed."""
        try:
            await self._confirmations.submit(rows)
        except Unavailable as error:
            log.warning("outbox.not_confirmed", id=rows[0], error=error)  # they are published again, which is harmless

    async def _delete_batch(self, groups: list[Sequence[UUID]]) -> list[None]:
        await self._database.fetch(QUERIES["delete_confirmed"], [row for group in groups for row in group])
        return [None] * len(groups)

    async def publish(self, row: OutboxRow) -> bool:
        """Publish one row. Return whether the broker confirmed it."""
        attributes = {
            "messaging.system": "rabbitmq",
            "messaging.operation.type": "send",
            "messaging.operation.name": "send",
            "messaging.destination.name": row.exchange,
            "messaging.rabbitmq.destination.routing_key": row.routing_key,
            "messaging.message.id": str(row.id),
        }
        context = tracing.to_context(row.traceparent)
        with tracing.start_span(f"send {row.exchange}", context, SpanKind.PRODUCER, attributes) as span:
            error = await self._publish_message(row, row.body, {"traceparent": tracing.to_traceparent(span)})
            if error is not None:
                tracing.record_error(span, type(error).__name__)
        return error is None

    async def _publish_group(self, rows: Sequence[OutboxRow]) -> bool:
        """Publish one message for several rows, under the id of the first."""
        return await self._publish_message(rows[0], merge_bodies(rows), {}) is None

    async def _publish_message(self, row: OutboxRow, body: bytes, headers: dict[str, str]) -> Exception | None:
        """Return why the broker did not confirm the message, or None."""
        try:
            await self._publisher.publish(row.exchange, row.routing_key, body, message_id=row.id, headers=headers)
        except (BrokerUnavailable, Unroutable) as error:
            log.warning("message.not_published", routing_key=row.routing_key, error=error)
            return error
        return None

    async def relay(self) -> None:
        """Publish overdue rows, until cancelled."""
        while True:
            try:
                published = await self.relay_once() if self._publisher.connection.is_up else 0
            except Unavailable as error:
                log.warning("outbox.relay_unavailable", error=error)
                published = 0
            if published < RELAY_BATCH:
                await asyncio.sleep(RELAY_SECONDS)

    async def relay_once(self) -> int:
        """Publish one batch of overdue rows. Return how many the broker confirmed."""
        async with self._database.transaction() as connection:
            found = await connection.fetch(QUERIES["lock_due"], RELAY_BATCH)
            rows = [OutboxRow(**record) for record in found]
            outcomes = await asyncio.gather(*(self.publish(row) for row in rows))
            sent = [row.id for row, ok in zip(rows, outcomes, strict=True) if ok]
            left = [row.id for row, ok in zip(rows, outcomes, strict=True) if not ok]
            if sent:
                await connection.execute(QUERIES["delete_confirmed"], sent)
            if left:
                await connection.execute(QUERIES["postpone"], left, POSTPONE_SECONDS)
        if rows:
            log.info("outbox.relayed", sent=len(sent), left=len(left))
        return len(sent)

    async def drain(self, seconds: float) -> None:
        """Wait for publishes under way. The relay publishes the rest."""
        deadline = asyncio.get_running_loop().time() + seconds
        while under_way := self._sending | self._deleting:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return
            await asyncio.wait(under_way, timeout=left)
