"""RabbitMQ: publish with confirms; consume: decode → handle → settle. Only this module acknowledges.

A plain connection is kept alive by one loop, which makes everything anew whenever the connection, a channel or
a consumer on it is lost. (docs/decisions/0003-plain-connections.md says why not aio-pika's robust ones.)
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from uuid import UUID

import aio_pika
import msgspec
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError, DeliveryError, PublishError

from common import messages, topology
from common.errors import BrokerUnavailable, Reject, Retry, Unroutable
from common.logs import Log
from common.messages import Message

CONNECT_SECONDS = 10.0
CALL_SECONDS = 5.0
RECONNECT_SECONDS = 0.5
PAUSE_SECONDS = 1.0
HEARTBEAT_SECONDS = 10
PROBE_SECONDS = 10.0  # between looks whether a connection still does what it is for
REASON_HEADER = "x-charonia-reason"
QUEUE_HEADER = "x-charonia-queue"
TROUBLE = (AMQPError, ChannelInvalidStateError, OSError, TimeoutError, RuntimeError)

log = Log("broker")


async def bounded(call: Awaitable[object]) -> object:
    """The call within its deadline; raises BrokerUnavailable for whatever a lost connection makes of it."""
    try:
        async with asyncio.timeout(CALL_SECONDS):
            return await call
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise BrokerUnavailable from None  # aio-pika cancels its callers when a heartbeat stays away
    except TROUBLE as error:
        raise BrokerUnavailable(f"broker: {type(error).__name__}: {error}") from error


class Link:
    """One connection, kept alive."""

    def __init__(
        self,
        url: str,
        name: str,
        furnish: Callable[[AbstractConnection], Awaitable[None]],
        probe: Callable[[AbstractConnection], Awaitable[None]],
    ) -> None:
        """`furnish` opens what belongs on each new connection, and calls `lose` when part of it is lost.

        `probe` raises BrokerUnavailable, or takes too long, when the connection no longer does what it is for.
        """
        self.probe = probe
        self.url = url
        self.name = name
        self.furnish = furnish
        self.connection: AbstractConnection | None = None
        self.lost = asyncio.Event()

    @property
    def is_up(self) -> bool:
        return self.connection is not None and not self.lost.is_set()

    async def check(self) -> bool:
        """For /readyz."""
        return self.is_up

    def lose(self, *_: object) -> None:
        self.lost.set()

    async def run(self) -> None:
        """Connects, again and again, until cancelled."""
        while True:
            self.lost.clear()
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    connection = await aio_pika.connect(
                        self.url,
                        timeout=CALL_SECONDS,
                        heartbeat=HEARTBEAT_SECONDS,
                        client_properties={"connection_name": self.name},
                    )
            except TROUBLE as error:
                log.warning("broker.unreachable", connection=self.name, error=f"{type(error).__name__}: {error}")
                await asyncio.sleep(RECONNECT_SECONDS)
                continue
            try:
                await self.keep(connection)
            finally:
                self.connection = None
                with contextlib.suppress(BrokerUnavailable):
                    await bounded(connection.close())
            await asyncio.sleep(RECONNECT_SECONDS)

    async def keep(self, connection: AbstractConnection) -> None:
        """Furnishes a new connection and returns once something on it is lost."""
        connection.close_callbacks.add(self.lose)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self.furnish(connection)
        except TROUBLE as error:
            log.warning("broker.not_usable", connection=self.name, error=f"{type(error).__name__}: {error}")
            return
        self.connection = connection
        log.info("broker.connected", connection=self.name)
        await self.guard(connection)
        log.warning("broker.lost", connection=self.name)

    async def guard(self, connection: AbstractConnection) -> None:
        """Returns once the connection is lost, or is there and does nothing any more: a watchdog."""
        while not self.lost.is_set():
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    await self.lost.wait()
            except TimeoutError:
                try:
                    await bounded(self.probe(connection))
                except BrokerUnavailable as error:
                    log.warning("broker.silent", connection=self.name, error=error)
                    self.lose()


class Publisher:
    """Publishes with confirms over a connection of its own."""

    def __init__(self, url: str, name: str) -> None:
        self.link = Link(url, f"{name}-publisher", self.furnish, self.probe)
        self.channel: AbstractChannel | None = None
        self.exchanges: dict[str, AbstractExchange] = {}

    async def furnish(self, connection: AbstractConnection) -> None:
        declaring = await connection.channel()
        await topology.declare_exchanges(declaring)
        await declaring.close()
        channel = await connection.channel(on_return_raises=True)
        channel.close_callbacks.add(self.link.lose)
        names = (topology.JOBS, topology.EVENTS, topology.CONTROL)
        self.exchanges = {name: await channel.get_exchange(name, ensure=False) for name in names}

    async def probe(self, connection: AbstractConnection) -> None:
        await (await connection.channel()).close()

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

    async def subscribe(self, subscription: Subscription) -> None:
        """Consumes from now on, also on every later connection; a second one for the queue replaces nothing."""
        if subscription.queue in self.subscriptions:
            return
        self.subscriptions[subscription.queue] = subscription
        if self.link.connection is not None:
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
        while waiting := self.subscriptions.keys() - consumed:  # more may be added meanwhile
            queue = min(waiting)
            await self.consume(connection, self.subscriptions[queue])
            consumed.add(queue)

    async def probe(self, connection: AbstractConnection) -> None:
        """Every queue is there and has a consumer."""
        channel = await connection.channel()
        for queue in tuple(self.subscriptions):
            found = await channel.declare_queue(queue, passive=True)
            if not found.declaration_result.consumer_count:
                raise BrokerUnavailable(f"nobody consumes {queue}")
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

        self.tags.append((queue, await queue.consume(receive)))

    async def settle(self, subscription: Subscription, raw: AbstractIncomingMessage) -> None:
        task = asyncio.current_task()
        if task is not None:
            self.handling.add(task)
            task.add_done_callback(self.handling.discard)
        traceparent = raw.headers.get("traceparent")
        try:
            message = messages.decode(raw.body)
            await subscription.handle(message, traceparent if isinstance(traceparent, str) else None)
        except Reject as error:
            log.error("message.rejected", queue=subscription.queue, reason=error)
            settlement = self.bury(subscription.queue, raw, str(error))
        except Retry as error:
            log.warning("message.returned", queue=subscription.queue, reason=error)
            settlement = raw.nack(requeue=True)
        except Exception:  # the one catch-all: a message is always settled
            log.exception("message.failed", queue=subscription.queue)
            await asyncio.sleep(PAUSE_SECONDS)  # else a bug of ours would turn it in a hot loop
            settlement = raw.nack(requeue=True)
        else:
            settlement = raw.ack()
        with contextlib.suppress(BrokerUnavailable):  # then it comes again, which is harmless
            await bounded(settlement)

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
        """Takes no more messages; lets handlers end within the grace (seconds), then leaves the rest to the broker."""
        for queue, tag in self.tags:
            with contextlib.suppress(BrokerUnavailable):
                await bounded(queue.cancel(tag))
        self.tags.clear()
        if self.handling:
            await asyncio.wait(self.handling, timeout=grace)
        for task in tuple(self.handling):
            task.cancel()
