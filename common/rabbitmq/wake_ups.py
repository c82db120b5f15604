"""Wake-ups: messages that say a committed row wants work.

The process that commits a row publishes its wake-up at once, one message for several rows if possible. No row
remembers that. If a wake-up is lost, a sweep finds the row: the reconciler of the dispatchers, or the notifier's.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

import msgspec
from opentelemetry.trace import SpanKind

from common import ids
from common.errors import BrokerUnavailable, Unroutable
from common.rabbitmq import messages, topology
from common.rabbitmq.messages import CancelJob, EventsRecorded, JobsQueued, QueuedJob, RecordedEvent
from common.rabbitmq.publisher import Publisher
from common.telemetry import tracing
from common.telemetry.logs import Log

MAX_IN_FLIGHT = 1000  # publishes of this process at a time; sweeps find the rest
CHUNK_SIZE = 250  # wake-ups of announce_many at a time, so that other publishes get their share
MAX_WAITING = 20_000  # wake-ups of announce_many; sweeps find the rest
MAX_JOBS_PER_MESSAGE = 8
MAX_EVENTS_PER_MESSAGE = 50

log = Log("wake_up")


class WakeUp(msgspec.Struct, frozen=True):
    """A wake-up for one row. One message can carry up to `max_per_message` wake-ups of its kind.

    `traceparent` is the row's, or empty.
    """

    exchange: str
    routing_key: str
    message: JobsQueued | EventsRecorded | CancelJob
    traceparent: str
    max_per_message: int = 1


def job_wake_up(job: QueuedJob, priority: str, model: str, traceparent: str, max_per_message: int = 1) -> WakeUp:
    """Return the wake-up for a job that can be claimed.

    `max_per_message` is the model's batch size: more jobs could wait in one dispatcher while another is idle.
    """
    limit = min(max_per_message, MAX_JOBS_PER_MESSAGE)
    return WakeUp(topology.JOBS_EXCHANGE, topology.job_key(priority, model), JobsQueued([job]), traceparent, limit)


def event_wake_up(event_id: UUID, event_type: str, traceparent: str) -> WakeUp:
    """Return the wake-up for an event."""
    message = EventsRecorded([RecordedEvent(event_id, traceparent)])
    return WakeUp(topology.EVENTS_EXCHANGE, event_type, message, traceparent, MAX_EVENTS_PER_MESSAGE)


def cancel_wake_up(job_id: UUID, traceparent: str) -> WakeUp:
    """Return the wake-up that cancels a running job."""
    return WakeUp(topology.CONTROL_EXCHANGE, "job.cancel", CancelJob(job_id), traceparent)


def group_wake_ups(wake_ups: Iterable[WakeUp]) -> Iterator[list[WakeUp]]:
    """Group wake-ups that can share a message. A sampled one has its own message and span."""
    groups: dict[tuple[str, str], list[WakeUp]] = {}
    for wake_up in wake_ups:
        if wake_up.max_per_message <= 1 or tracing.is_sampled(wake_up.traceparent):
            yield [wake_up]
            continue
        route = wake_up.exchange, wake_up.routing_key
        group = groups.setdefault(route, [])
        group.append(wake_up)
        if len(group) >= wake_up.max_per_message:
            yield groups.pop(route)
    yield from groups.values()


def merge_messages(group: Sequence[WakeUp]) -> JobsQueued | EventsRecorded | CancelJob:
    """Return one message for wake-ups of one kind."""
    jobs: list[QueuedJob] = []
    events: list[RecordedEvent] = []
    for wake_up in group:
        match wake_up.message:
            case JobsQueued(queued):
                jobs += queued
            case EventsRecorded(recorded):
                events += recorded
            case CancelJob() as cancel:
                return cancel  # has a message of its own
    return JobsQueued(jobs) if jobs else EventsRecorded(events)


class WakeUpPublisher:
    """Publishes wake-ups in the background."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._waiting = 0  # wake-ups of announce_many
        self._sending: set[asyncio.Task[bool]] = set()

    def announce(self, wake_ups: Iterable[WakeUp]) -> None:
        """Publish wake-ups for rows that were just committed. Return at once: the broker may be slow."""
        for group in group_wake_ups(wake_ups):
            if len(self._sending) >= MAX_IN_FLIGHT or not self._publisher.connection.is_up:
                return
            task = asyncio.create_task(self.publish(group))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def announce_many(self, wake_ups: Sequence[WakeUp]) -> None:
        """Publish many wake-ups, a chunk at a time."""
        if self._waiting + len(wake_ups) > MAX_WAITING:
            return
        self._waiting += len(wake_ups)
        try:
            for start in range(0, len(wake_ups), CHUNK_SIZE):
                self.announce(wake_ups[start : start + CHUNK_SIZE])
                if self._sending:
                    await asyncio.wait(tuple(self._sending))
        finally:
            self._waiting -= len(wake_ups)

    async def publish(self, group: Sequence[WakeUp]) -> bool:
        """Publish one message for wake-ups of one kind. Return whether the broker confirmed it."""
        first, message_id = group[0], ids.new()
        if not tracing.is_sampled(first.traceparent):
            return await self._publish_message(message_id, group, {}) is None
        attributes = {
            "messaging.system": "rabbitmq",
            "messaging.operation.type": "send",
            "messaging.operation.name": "send",
            "messaging.destination.name": first.exchange,
            "messaging.rabbitmq.destination.routing_key": first.routing_key,
            "messaging.message.id": str(message_id),
        }
        context = tracing.to_context(first.traceparent)
        with tracing.start_span(f"send {first.exchange}", context, SpanKind.PRODUCER, attributes) as span:
            error = await self._publish_message(message_id, group, {"traceparent": tracing.to_traceparent(span)})
            if error is not None:
                tracing.record_error(span, type(error).__name__)
        return error is None

    async def _publish_message(
        self, message_id: UUID, group: Sequence[WakeUp], headers: dict[str, str]
    ) -> Exception | None:
        """Return why the broker did not confirm the message, or None."""
        exchange, key, body = group[0].exchange, group[0].routing_key, messages.encode(merge_messages(group))
        try:
            await self._publisher.publish(exchange, key, body, message_id=message_id, headers=headers)
        except (BrokerUnavailable, Unroutable) as error:
            log.warning("message.not_published", routing_key=key, error=error)
            return error
        return None

    async def drain(self, seconds: float) -> None:
        """Wait for publishes under way. Sweeps find the rest."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self._sending:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return
            await asyncio.wait(tuple(self._sending), timeout=left)
