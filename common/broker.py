"""RabbitMQ: publish with confirms; consume: decode → handle → settle. Only this module acknowledges."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from uuid import UUID

import aio_pika
import msgspec
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import DeliveryError, PublishError

from common import link, messages, metrics, topology
from common.errors import BrokerUnavailable, Reject, Retry, Unavailable, Unroutable
from common.failures import Failures
from common.link import Link, bounded
from common.logs import Log
from common.messages import Message

PAUSE_SECONDS = 1.0  # before a message comes again whose handler broke: else it would turn in a hot loop
MAX_FAILURES = 20  # of a message's handler, before the message is buried
REASON_HEADER = "x-charonia-reason"
QUEUE_HEADER = "x-charonia-queue"

log = Log("broker")


class Publisher:
    """Publishes with confirms over a connection of its own."""

    def __init__(self, url: str, name: str) -> None:
        self.link = Link(url, f"{name}-publisher", self.furnish, self.probe)
        self.channel: AbstractChannel | None = None
        self.exchanges: dict[str, AbstractExchange] = {}
        self.fanouts: dict[str, AbstractExchange] = {}
        metrics.broker_connected.labels("publisher").set_function(lambda: self.link.is_up)
        metrics.broker_blocked.set_function(lambda: self.link.is_blocked)

    async def furnish(self, connection: AbstractConnection) -> None:
        declaring = await connection.channel()
        await topology.declare_exchanges(declaring)
        await declaring.close()
        channel = await connection.channel(on_return_raises=True)
        channel.close_callbacks.add(self.link.lose)
        names = (topology.JOBS, topology.EVENTS, topology.CONTROL)
        self.exchanges = {name: await channel.get_exchange(name, ensure=False) for name in names}
        telling = await connection.channel(publisher_confirms=False)
        telling.close_callbacks.add(self.link.lose)
        fanouts = (topology.CONTROL, topology.CHANGES)
        self.fanouts = {name: await telling.get_exchange(name, ensure=False) for name in fanouts}

    async def probe(self, connection: AbstractConnection) -> None:
        channel = await connection.channel()
        dead = await channel.declare_queue(topology.DEAD, passive=True)
        metrics.messages_dead.set(dead.declaration_result.message_count or 0)
        await channel.close()

    async def publish(
        self, exchange: str, routing_key: str, body: bytes, *, message_id: UUID, headers: dict[str, str]
    ) -> None:
        """Returns once the broker has the message in a queue.

        Raises Unroutable where no queue takes it, and BrokerUnavailable where nothing is known:
        the message may still arrive.
        """
        if not self.link.is_up:
            raise BrokerUnavailable
        message = aio_pika.Message(
            body,
            message_id=str(message_id),
            content_type="application/json",
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            headers={**headers},
        )
        try:
            await bounded(self.exchanges[exchange].publish(message, routing_key))
        except BrokerUnavailable as error:
            match error.__cause__:
                case PublishError():
                    raise Unroutable(f"no queue takes {routing_key} of {exchange}") from error
                case DeliveryError() as refusal:
                    raise BrokerUnavailable(f"the broker refused the message: {refusal}") from error
            raise

    async def tell(self, fanout: str, body: bytes) -> None:
        """To whoever hears that exchange at the moment, and to nobody later; raises BrokerUnavailable."""
        if not self.link.is_up:
            raise BrokerUnavailable
        message = aio_pika.Message(body, content_type="application/json")
        await bounded(self.fanouts[fanout].publish(message, "", mandatory=False))


class Subscription(msgspec.Struct, frozen=True):
    """What to do with the messages of one queue.

    `handle` gets the message and the traceparent that came with it. It returns (ack), or raises Retry (back to the
    queue) or Reject (to the dead-letter queue). It is cancelled when its channel is lost, and the message then
    comes again.
    """

    queue: str
    prefetch: int
    declare: Callable[[AbstractChannel], Awaitable[None]]
    handle: Callable[[Message, str | None], Awaitable[None]]


class Consumer:
    """Consumes any number of queues over a connection of its own, a channel for each."""

    def __init__(self, url: str, name: str) -> None:
        self.link = Link(url, f"{name}-consumer", self.furnish, self.probe)
        self.subscriptions: dict[str, Subscription] = {}
        self.tags: list[tuple[AbstractQueue, str]] = []
        self.handling: set[asyncio.Task[object]] = set()
        self.graveyard: AbstractExchange | None = None
        self.failures = Failures()
        self.stopping = False
        metrics.broker_connected.labels("consumer").set_function(lambda: self.link.is_up)
        metrics.queues_wanted.set_function(lambda: len(self.subscriptions))
        metrics.queues_consumed.set_function(lambda: len(self.tags) if self.link.is_up else 0)

    async def subscribe(self, subscription: Subscription) -> None:
        """Consumes from now on, also on every later connection; a second one for the queue replaces nothing."""
        if subscription.queue in self.subscriptions:
            return
        self.subscriptions[subscription.queue] = subscription
        if self.link.connection is not None and not self.stopping:
            try:
                await bounded(self.consume(self.link.connection, subscription))
            except BrokerUnavailable:
                self.link.lose()  # the next connection starts them all

    async def furnish(self, connection: AbstractConnection) -> None:
        self.tags.clear()
        declaring = await connection.channel()
        await topology.declare_exchanges(declaring)
        await declaring.close()
        dying = await connection.channel(on_return_raises=True)
        dying.close_callbacks.add(self.link.lose)
        self.graveyard = await dying.get_exchange(topology.DEAD, ensure=False)
        consumed: set[str] = set()
        while not self.stopping and (waiting := self.subscriptions.keys() - consumed):  # more may be added meanwhile
            queue = min(waiting)
            await self.consume(connection, self.subscriptions[queue])
            consumed.add(queue)

    async def probe(self, connection: AbstractConnection) -> None:
        """Every queue that was consumed is there and has a consumer, until we want none any more."""
        if self.stopping:
            return
        channel = await connection.channel()
        for queue, _ in tuple(self.tags):
            found = await channel.declare_queue(queue.name, passive=True)
            if not found.declaration_result.consumer_count:
                raise BrokerUnavailable(f"nobody consumes {queue.name}")
        await channel.close()

    async def consume(self, connection: AbstractConnection, subscription: Subscription) -> None:
        declaring = await connection.channel()
        await subscription.declare(declaring)
        await declaring.close()
        channel = await connection.channel(publisher_confirms=False)
        channel.close_callbacks.add(self.link.lose)
        underlay = await channel.get_underlay_channel()
        underlay.on_consumer_cancel_callbacks.add(self.link.lose)  # the queue was deleted or lost its leader
        await channel.set_qos(prefetch_count=subscription.prefetch)
        queue = await channel.get_queue(subscription.queue, ensure=False)

        async def receive(raw: AbstractIncomingMessage) -> None:
            await self.settle(subscription, raw)

        try:
            async with asyncio.timeout(link.CALL_SECONDS):
                self.tags.append((queue, await queue.consume(receive)))
        except TimeoutError:
            if await topology.drop_leaderless(await connection.channel(), subscription.queue):
                log.warning("broker.queue_dropped", queue=subscription.queue)
            raise  # the next connection declares it anew

    async def settle(self, subscription: Subscription, raw: AbstractIncomingMessage) -> None:
        task = asyncio.current_task()
        if task is not None:
            self.handling.add(task)
            task.add_done_callback(self.handling.discard)
        try:
            settlement = await self.handle(subscription, raw)
        except asyncio.CancelledError:
            if self.stopping:  # the connection stays up for what this process still has to do
                with contextlib.suppress(BrokerUnavailable):
                    await bounded(raw.nack(requeue=True))
            raise
        with contextlib.suppress(BrokerUnavailable):  # then it comes again, which is harmless
            await bounded(settlement)

    async def handle(self, subscription: Subscription, raw: AbstractIncomingMessage) -> Awaitable[object]:
        """How to settle a message, once its handler is done with it."""
        queue, traceparent = subscription.queue, raw.headers.get("traceparent")
        try:
            message = messages.decode(raw.body)
            await subscription.handle(message, traceparent if isinstance(traceparent, str) else None)
        except Reject as error:
            log.error("message.rejected", queue=queue, reason=error)
            return self.bury(queue, raw, str(error))
        except Retry as error:
            log.warning("message.returned", queue=queue, reason=error)
            return raw.nack(requeue=True)
        except Exception as error:  # the one catch-all: a message is always settled
            return await self.judge(queue, raw, error)
        return raw.ack()

    async def judge(self, queue: str, raw: AbstractIncomingMessage, error: Exception) -> Awaitable[object]:
        """How to settle a message whose handler broke: it comes again, but a bug of ours not for ever."""
        count = 0 if isinstance(error, Unavailable) else self.failures.add(raw.message_id)
        metrics.messages_failed.inc()
        log.exception("message.failed", queue=queue, count=count)
        if count < MAX_FAILURES:
            await asyncio.sleep(PAUSE_SECONDS)
            return raw.nack(requeue=True)
        log.error("message.buried", queue=queue, count=count)
        return self.bury(queue, raw, f"its handler broke {count} times: {error!r}")

    async def bury(self, queue: str, raw: AbstractIncomingMessage, reason: str) -> None:
        """Moves a message to the dead-letter queue with the reason; the broker does it, without, where we can't."""
        headers = {**raw.headers, REASON_HEADER: reason[:1000], QUEUE_HEADER: queue}
        message = aio_pika.Message(
            raw.body, headers=headers, message_id=raw.message_id, delivery_mode=aio_pika.DeliveryMode.PERSISTENT
        )
        assert self.graveyard is not None, "what is consumed came over a furnished connection"
        try:
            await bounded(self.graveyard.publish(message, queue))
        except BrokerUnavailable:
            await raw.reject(requeue=False)
        else:
            await raw.ack()

    async def stop(self, grace: float) -> None:
        """Takes no more messages, whatever becomes of the connection.

        Handlers end within the grace (seconds); what they have not settled by then goes back to its queue at once.
        """
        self.stopping = True
        for queue, tag in self.tags:
            with contextlib.suppress(BrokerUnavailable):
                await bounded(queue.cancel(tag))
        self.tags.clear()
        if self.handling:
            await asyncio.wait(self.handling, timeout=grace)
        for task in tuple(self.handling):
            task.cancel()
        if self.handling:
            await asyncio.wait(self.handling, timeout=grace)
