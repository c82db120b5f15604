"""Connected publishers and consumers, and direct access to queues."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from common.rabbitmq.connection import BrokerConnection
from common.rabbitmq.consumer import Consumer
from common.rabbitmq.publisher import Publisher
from tests.integration.waiting import until


@contextlib.asynccontextmanager
async def running(connection: BrokerConnection) -> AsyncIterator[None]:
    """Keep a connection open for a block."""
    task = asyncio.create_task(connection.run())
    try:
        await until(lambda: connection.is_up, "the connection is up")
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def publishing(url: str) -> AsyncIterator[Publisher]:
    """Open a publisher for a block."""
    publisher = Publisher(url, "tests")
    async with running(publisher.connection):
        yield publisher


@contextlib.asynccontextmanager
async def consuming(url: str) -> AsyncIterator[Consumer]:
    """Open a consumer for a block."""
    consumer = Consumer(url, "tests")
    async with running(consumer.connection):
        yield consumer
        await consumer.stop(5)


def find_tag(consumer: Consumer, queue: str) -> str | None:
    """Return the tag of a queue's consumer: another one whenever the queue is consumed again. None while it is not."""
    assert consumer._pool is not None
    found = dict(consumer._pool.take_turn(consumer.consumed)).get(queue)
    return None if found is None else found.consumed[queue][1]


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    """Open a channel of the test's own."""
    connection = await aio_pika.connect(url)
    async with connection:
        yield await connection.channel()


async def drain(url: str, queue: str, count: int) -> list[AbstractIncomingMessage]:
    """Remove `count` messages from a queue, and all others with them. Return them."""
    taken: list[AbstractIncomingMessage] = []
    async with connected(url) as channel:
        source = await channel.get_queue(queue, ensure=False)

        async def get_all() -> bool:
            while (message := await source.get(fail=False, no_ack=True)) is not None:
                taken.append(message)
            return len(taken) >= count

        await until(get_all, f"{count} messages in {queue}")
    return taken


async def count(url: str, queue: str) -> int:
    """Return how many messages are ready in a queue."""
    async with connected(url) as channel:
        declared = await channel.declare_queue(queue, passive=True)
        return declared.declaration_result.message_count or 0
