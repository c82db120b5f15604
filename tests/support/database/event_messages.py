"""The messages of events that were written directly into a database."""

import asyncio
from collections.abc import Sequence

import aio_pika

from common.rabbitmq import messages, topology
from common.rabbitmq.connection import connect
from common.rabbitmq.messages import EventsRecorded, RecordedEvent
from tests.support.database.seed import Seeded

IN_FLIGHT = 500  # messages without a confirm


async def publish(amqp_url: str, events: Sequence[Seeded]) -> None:
    """Publish the messages of events, as the dispatcher does when jobs end."""
    async with await connect(amqp_url, "tests") as connection:
        exchange = await (await connection.channel()).get_exchange(topology.EVENTS_EXCHANGE)
        limit = asyncio.Semaphore(IN_FLIGHT)

        async def publish_one(event: Seeded) -> None:
            message = aio_pika.Message(
                messages.encode(EventsRecorded([RecordedEvent(event.id, event.traceparent)])),
                headers={"traceparent": event.traceparent},
            )
            async with limit:
                await exchange.publish(message, "job.succeeded")

        await asyncio.gather(*map(publish_one, events))
