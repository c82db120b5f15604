"""Publish messages, with or without the broker's confirm."""

from collections.abc import Iterable
from functools import partial
from uuid import UUID

import aio_pika
from aio_pika.abc import AbstractConnection, AbstractExchange
from aio_pika.exceptions import ChannelNotFoundEntity, DeliveryError, PublishError

from common.errors import BrokerUnavailable, Unroutable
from common.rabbitmq import topology
from common.rabbitmq.connection import BrokerConnection, with_deadline
from common.settings import QueueType
from common.telemetry import metrics
from common.telemetry.logs import Log

CONFIRMED = (topology.JOBS_EXCHANGE, topology.EVENTS_EXCHANGE, topology.CONTROL_EXCHANGE)
UNCONFIRMED = (topology.CONTROL_EXCHANGE, topology.CHANGES_EXCHANGE)

log = Log("broker")


class Publisher:
    """Publishes over a connection of its own. Run `connection` to open it."""

    def __init__(self, url: str, name: str, queue_type: QueueType = "classic") -> None:
        self._declare = partial(topology.declare_exchanges, queue_type=queue_type)
        self.connection = BrokerConnection(url, f"{name}-publisher", self._set_up, self._probe)
        self._confirming: dict[str, AbstractExchange] = {}
        self._unconfirmed: dict[str, AbstractExchange] = {}
        metrics.broker_connected.labels("publisher").set_function(lambda: self.connection.is_up)
        metrics.broker_blocked.set_function(lambda: self.connection.is_blocked)

    async def _set_up(self, connection: AbstractConnection) -> None:
        await topology.declare_with(connection, self._declare)
        channel = await connection.channel(on_return_raises=True)
        channel.close_callbacks.add(self.connection.mark_lost)
        self._confirming = {name: await channel.get_exchange(name, ensure=False) for name in CONFIRMED}
        channel = await connection.channel(publisher_confirms=False)
        channel.close_callbacks.add(self.connection.mark_lost)
        self._unconfirmed = {name: await channel.get_exchange(name, ensure=False) for name in UNCONFIRMED}

    async def _probe(self, connection: AbstractConnection) -> None:
        channel = await connection.channel()
        dead_letters = await channel.declare_queue(topology.DEAD_LETTERS, passive=True)
        metrics.broker_dead_messages.set(dead_letters.declaration_result.message_count or 0)
        await channel.close()

    async def count_ready(self, queues: Iterable[str]) -> dict[str, int]:
        """Return the number of ready messages of each of these queues that exists. Raise BrokerUnavailable."""
        ready: dict[str, int] = {}

        async def count(queue: str) -> None:
            if self.connection.current is None:
                raise BrokerUnavailable
            channel = await self.connection.current.channel()  # one for each queue: a missing queue closes it
            found = await channel.declare_queue(queue, passive=True)
            ready[queue] = found.declaration_result.message_count or 0
            await channel.close()

        for queue in queues:
            try:
                await with_deadline(count(queue))
            except BrokerUnavailable as error:
                if not self.connection.is_up:
                    raise
                if not isinstance(error.__cause__, ChannelNotFoundEntity):  # such as a queue without a leader
                    log.warning("broker.queue_not_counted", queue=queue, error=error)
        return ready

    async def publish(
        self, exchange: str, routing_key: str, body: bytes, *, message_id: UUID, headers: dict[str, str]
    ) -> None:
        """Publish a message. Return when the broker has confirmed it.

        Raise Unroutable if no queue takes it. Raise BrokerUnavailable if the outcome is unknown: the message may still
        arrive.
        """
        if not self.connection.is_up:
            raise BrokerUnavailable
        message = aio_pika.Message(
            body,
            message_id=str(message_id),
            content_type="application/json",
            delivery_mode=aio_pika.DeliveryMode.NOT_PERSISTENT,  # the rows bring back what a broker loses
            headers={**headers},
        )
        try:
            await with_deadline(self._confirming[exchange].publish(message, routing_key))
        except BrokerUnavailable as error:
            match error.__cause__:
                case PublishError():
                    raise Unroutable(f"no queue takes {routing_key} of {exchange}") from error
                case DeliveryError() as refusal:
                    raise BrokerUnavailable(f"the broker refused the message: {refusal}") from error
            raise

    async def publish_unconfirmed(self, exchange: str, body: bytes) -> None:
        """Publish to the consumers that a fanout exchange has at the moment. Raise BrokerUnavailable if down."""
        if not self.connection.is_up:
            raise BrokerUnavailable
        message = aio_pika.Message(body, content_type="application/json")
        await with_deadline(self._unconfirmed[exchange].publish(message, "", mandatory=False))
