"""One channel that consumes several queues, and opens itself again."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial

from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import ChannelClosed

from common.errors import BrokerUnavailable
from common.rabbitmq import topology
from common.rabbitmq.connection import with_deadline
from common.rabbitmq.subscription import Subscription
from common.telemetry.logs import Log

RETRY_SECONDS = 2.0  # until a queue that could not be consumed is tried again
DROP_SECONDS = 20.0  # to delete a queue without a leader

log = Log("broker")

Process = Callable[[Subscription, AbstractIncomingMessage], Awaitable[None]]


class SharedChannel:
    """Consumes its subscriptions on one channel, and again what is lost: a consumer, or the channel with all of them.

    `run` does this alone. The steps for two subscriptions therefore never mix: a prefetch is that of the next consumer.
    """

    def __init__(
        self, connection: AbstractConnection, process: Process, on_refused: Callable[[Subscription], None] | None = None
    ) -> None:
        """`on_refused` takes over a subscription whose consumer was refused, which costs its neighbours the channel."""
        self.subscriptions: dict[str, Subscription] = {}
        self.consumed: dict[str, tuple[AbstractQueue, str]] = {}  # with their consumer tags
        self.settled = asyncio.Event()  # each subscription was tried
        self._connection = connection
        self._process = process
        self._on_refused = on_refused
        self._changed = asyncio.Event()
        self._channel: AbstractChannel | None = None
        self._declaring: AbstractChannel | None = None  # a refused declaration closes its channel
        self._left: list[AbstractChannel] = []  # to be closed
        self._failed: dict[str, str] = {}  # the last error of each queue, which is logged once
        self._retry_at: dict[str, float] = {}  # by the loop's clock

    def add(self, subscription: Subscription) -> None:
        self.subscriptions[subscription.queue] = subscription
        self._note_change()

    async def run(self) -> None:
        """Consume what is not consumed yet, until the connection is closed."""
        try:
            while not self._connection.is_closed:
                await self._consume_missing()
        finally:
            self.settled.set()  # nobody waits for a lost connection

    async def _consume_missing(self) -> None:
        """Try each subscription that is not consumed and due. Then wait for a change, or until one is due."""
        now = asyncio.get_running_loop().time
        self._changed.clear()
        for queue in sorted(self.subscriptions.keys() - self.consumed.keys()):
            if self._retry_at.get(queue, 0.0) <= now():
                await self._try(self.subscriptions[queue])
        await self._close_left()
        if self._changed.is_set():
            return
        self.settled.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(min(self._retry_at.values(), default=None)):
                await self._changed.wait()

    def reopen(self) -> None:
        """Consume all queues on another channel, because a consumer has disappeared from this one."""
        if self._channel is not None:
            self._leave(self._channel)

    async def cancel_consumers(self) -> None:
        """Take no more messages. Those that came before may still be acked. `run` must have ended."""
        consumed = tuple(self.consumed.values())
        self.consumed.clear()
        with contextlib.suppress(BrokerUnavailable):  # the loss of the channel ends them, too
            for queue, tag in consumed:
                await with_deadline(queue.cancel(tag))

    async def _try(self, subscription: Subscription) -> None:
        name = subscription.queue
        try:
            await with_deadline(self._declare(subscription))
        except BrokerUnavailable as error:
            self._note_failure(name, error)
            return
        try:
            await with_deadline(self._consume(subscription))
        except BrokerUnavailable as error:
            self._note_failure(name, error)
            self.reopen()
            if not isinstance(error.__cause__, TimeoutError | ChannelClosed):
                return
            if self._on_refused is not None:
                del self.subscriptions[name], self._retry_at[name]
                self._on_refused(subscription)
            elif isinstance(error.__cause__, TimeoutError):
                await self._drop_leaderless(name)

    async def _declare(self, subscription: Subscription) -> None:
        if self._declaring is None or self._declaring.is_closed:
            self._declaring = await self._connection.channel()
        await subscription.declare(self._declaring)

    async def _consume(self, subscription: Subscription) -> None:
        async def receive(raw: AbstractIncomingMessage) -> None:
            await self._process(subscription, raw)

        channel = self._channel or await self._open()
        await channel.set_qos(prefetch_count=subscription.prefetch)
        queue = await channel.get_queue(subscription.queue, ensure=False)
        tag = await queue.consume(receive)
        if channel is self._channel:  # it was not lost meanwhile
            self.consumed[subscription.queue] = queue, tag
            self._failed.pop(subscription.queue, None)
            self._retry_at.pop(subscription.queue, None)

    async def _open(self) -> AbstractChannel:
        self._channel = channel = self._connection.channel(publisher_confirms=False)
        await channel
        channel.close_callbacks.add(partial(self._on_closed, channel))
        underlay = await channel.get_underlay_channel()
        underlay.on_consumer_cancel_callbacks.add(self._on_cancelled)  # the queue was deleted or has no leader
        return channel

    def _on_closed(self, channel: AbstractChannel, *_: object) -> None:
        if channel is self._channel:
            self._channel = None
            self.consumed.clear()
            self._note_change()

    def _on_cancelled(self, frame: object) -> None:
        tag = getattr(frame, "consumer_tag", None)
        for name in [name for name, (_, consumer) in self.consumed.items() if consumer == tag]:
            log.warning("broker.consumer_lost", queue=name)
            del self.consumed[name]
            self._note_change()

    def _leave(self, channel: AbstractChannel) -> None:
        """Use another channel from now on."""
        self._left.append(channel)
        self._on_closed(channel)

    async def _close_left(self) -> None:
        channels = [*self._left, *([self._declaring] if self._declaring else [])]
        self._left, self._declaring = [], None
        for channel in channels:
            if not channel.is_closed:
                with contextlib.suppress(BrokerUnavailable):
                    await with_deadline(channel.close())

    async def _drop_leaderless(self, queue: str) -> None:
        async def drop() -> None:
            channel = await self._connection.channel()
            self._left.append(channel)
            if await topology.drop_leaderless(channel, queue):
                log.warning("broker.queue_dropped", queue=queue)

        with contextlib.suppress(BrokerUnavailable):
            await with_deadline(drop(), DROP_SECONDS)

    def _note_change(self) -> None:
        self.settled.clear()
        self._changed.set()

    def _note_failure(self, queue: str, error: BrokerUnavailable) -> None:
        self._retry_at[queue] = asyncio.get_running_loop().time() + RETRY_SECONDS
        if not self._connection.is_closed and self._failed.get(queue) != str(error):
            self._failed[queue] = str(error)
            log.warning("broker.queue_not_consumed", queue=queue, error=error)
