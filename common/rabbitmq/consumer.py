"""Consume messages: decode, handle, then ack. Only this module acks."""

import asyncio
import contextlib
from collections.abc import Awaitable
from functools import partial

import aio_pika
from aio_pika.abc import AbstractConnection, AbstractExchange, AbstractIncomingMessage
from aio_pika.exceptions import ChannelClosed

from common.errors import BrokerUnavailable, Reject, Retry, Unavailable, UnknownMessage
from common.rabbitmq import connection as connections
from common.rabbitmq import messages, topology
from common.rabbitmq.channel_pool import ChannelPool
from common.rabbitmq.connection import BrokerConnection, with_deadline
from common.rabbitmq.handler_failures import FailureCounter
from common.rabbitmq.subscription import Subscription
from common.settings import QueueType
from common.telemetry import metrics
from common.telemetry.logs import Log

PAUSE_SECONDS = 1.0  # before a failed message is requeued: without it the message would come back in a hot loop
MAX_FAILURES = 20  # of a message's handler, before the message is dead-lettered
REASON_HEADER = "x-charonia-reason"
QUEUE_HEADER = "x-charonia-queue"
SETTLE_SECONDS = 15.0  # for all queues of a new connection; then it is up, and the rest follows
PROBED_QUEUES = 30  # at a time, in turns: with more, an idle process costs the broker more with each model

log = Log("broker")


class Consumer:
    """Consumes queues over a connection of its own, on a few channels. Run `connection` to open it."""

    def __init__(self, url: str, name: str, queue_type: QueueType = "classic") -> None:
        self._declare = partial(topology.declare_exchanges, queue_type=queue_type)
        self.connection = BrokerConnection(url, f"{name}-consumer", self._set_up, self._probe)
        self._subscriptions: dict[str, Subscription] = {}
        self._pool: ChannelPool | None = None  # of the connection that was set up last
        self._handling: set[asyncio.Task[object]] = set()
        self._dead_letters: AbstractExchange | None = None
        self._failures = FailureCounter()
        self._stopping = False
        metrics.broker_connected.labels("consumer").set_function(lambda: self.connection.is_up)
        metrics.queues_expected.set_function(lambda: len(self._subscriptions))
        metrics.queues_consumed.set_function(lambda: self.consumed)

    @property
    def consumed(self) -> int:
        """The number of queues that are consumed now."""
        return self._pool.consumed if self._pool is not None and self.connection.is_up else 0

    async def subscribe(self, subscription: Subscription) -> None:
        """Consume a queue from now on, also on later connections. A second subscription to a queue changes nothing.

        If it cannot be consumed now, it is tried again without end.
        """
        if subscription.queue in self._subscriptions:
            return
        self._subscriptions[subscription.queue] = subscription
        if self._pool is not None and not self._stopping:
            channel = self._pool.add(subscription)
            if self.connection.is_up:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(connections.CALL_SECONDS):
                        await channel.settled.wait()

    async def stop(self, grace: float) -> None:
        """Take no more messages, on this and later connections.

        Handlers have `grace` seconds to end. Messages that are not acked by then are requeued at once.
        """
        self._stopping = True
        if self._pool is not None:
            await self._pool.stop()
        if self._handling:
            await asyncio.wait(self._handling, timeout=grace)
        for task in tuple(self._handling):
            task.cancel()
        if self._handling:
            await asyncio.wait(self._handling, timeout=grace)

    async def _set_up(self, connection: AbstractConnection) -> None:
        await topology.declare_with(connection, self._declare)
        channel = await connection.channel(on_return_raises=True)
        channel.close_callbacks.add(self.connection.mark_lost)
        self._dead_letters = await channel.get_exchange(topology.DEAD_LETTERS, ensure=False)
        if self._stopping:
            return
        self._pool = pool = ChannelPool(connection, self._process)
        for subscription in self._subscriptions.values():
            pool.add(subscription)
        await pool.wait_until_tried(SETTLE_SECONDS)
        if self._subscriptions and not pool.consumed and not self._stopping:
            raise ConnectionError("no queue can be consumed")

    async def _probe(self, connection: AbstractConnection) -> None:
        """Check some queues. Consume those again that lost their consumer. Raise BrokerUnavailable if all are lost."""
        if self._stopping or self._pool is None or not self._subscriptions:
            return
        if not self._pool.consumed:
            if self._pool.is_settled:
                raise BrokerUnavailable("no queue can be consumed")
            return
        probing = await connection.channel()
        for queue, channel in self._pool.take_turn(PROBED_QUEUES):
            try:
                found = await probing.declare_queue(queue, passive=True)
                consumers = found.declaration_result.consumer_count
            except ChannelClosed:
                consumers = 0
            if not consumers:
                log.warning("broker.consumer_lost", queue=queue)
                channel.reopen()
                break
        await probing.close()

    async def _process(self, subscription: Subscription, raw: AbstractIncomingMessage) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._handling.add(task)
            task.add_done_callback(self._handling.discard)
        try:
            finish = await self._handle(subscription, raw)
        except asyncio.CancelledError:
            if self._stopping:  # the connection stays open while this process drains
                with contextlib.suppress(BrokerUnavailable):
                    await with_deadline(raw.nack(requeue=True))
            raise
        with contextlib.suppress(BrokerUnavailable):  # then the broker delivers it again, which is harmless
            await with_deadline(finish)

    async def _handle(self, subscription: Subscription, raw: AbstractIncomingMessage) -> Awaitable[object]:
        """Run the handler. Return the call that finishes the message: ack, requeue or dead-letter."""
        queue, traceparent = subscription.queue, raw.headers.get("traceparent")
        try:
            message = messages.decode(raw.body)
            await subscription.handle(message, traceparent if isinstance(traceparent, str) else None)
        except UnknownMessage as error:  # the rows bring back what it stands for
            metrics.messages_unknown.inc()
            log.warn_once("message.unknown", reason=str(error))
        except Reject as error:
            log.error("message.rejected", queue=queue, reason=error)
            return self._dead_letter(queue, raw, str(error))
        except Retry as error:
            log.warning("message.returned", queue=queue, reason=error)
            return raw.nack(requeue=True)
        except Exception as error:  # the one catch-all: every message is finished
            return await self._classify(queue, raw, error)
        return raw.ack()

    async def _classify(self, queue: str, raw: AbstractIncomingMessage, error: Exception) -> Awaitable[object]:
        """Requeue a message whose handler failed, or dead-letter it after MAX_FAILURES. Outages do not count."""
        count = 0 if isinstance(error, Unavailable) else self._failures.add(raw.message_id)
        metrics.messages_failed.inc()
        log.exception("message.failed", queue=queue, count=count)
        if count < MAX_FAILURES:
            await asyncio.sleep(PAUSE_SECONDS)
            return raw.nack(requeue=True)
        log.error("message.dead_lettered", queue=queue, count=count)
        return self._dead_letter(queue, raw, f"the handler failed {count} times: {error!r}")

    async def _dead_letter(self, queue: str, raw: AbstractIncomingMessage, reason: str) -> None:
        """Move a message to the dead-letter queue, with the reason. Without us the broker does it, without a reason."""
        headers = {**raw.headers, REASON_HEADER: reason[:1000], QUEUE_HEADER: queue}
        message = aio_pika.Message(
            raw.body, headers=headers, message_id=raw.message_id, delivery_mode=aio_pika.DeliveryMode.PERSISTENT
        )
        assert self._dead_letters is not None, "messages come over a connection that is set up"
        try:
            await with_deadline(self._dead_letters.publish(message, queue))
        except BrokerUnavailable:
            await raw.reject(requeue=False)
        else:
            await raw.ack()
