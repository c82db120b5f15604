"""Publishers and consumers that are connected, and plain looks into queues."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from common.broker import Consumer, Publisher
from common.link import Link
from tests.integration.waiting import until


@contextlib.asynccontextmanager
async def running(link: Link) -> AsyncIterator[None]:
    """Keeps a link up for the time of a block."""
    task = asyncio.create_task(link.run())
    try:
        await until(lambda: link.is_up, "the connection is up")
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def publishing(url: str) -> AsyncIterator[Publisher]:
    publisher = Publisher(url, "tests")
    async with running(publisher.link):
        yield publisher


@contextlib.asynccontextmanager
async def consuming(url: str) -> AsyncIterator[Consumer]:
    consumer = Consumer(url, "tests")
    async with running(consumer.link):
        yield consumer
        await consumer.stop(5)


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    """A channel of the test's own."""
    connection = await aio_pika.connect(url)
    async with connection:
        yield await connection.channel()


async def drain(url: str, queue: str, count: int) -> list[AbstractIncomingMessage]:
    """Takes that many messages out of a queue."""
    taken: list[AbstractIncomingMessage] = []
    async with connected(url) as channel:
        source = await channel.get_queue(queue, ensure=False)

        async def take() -> bool:
            while (message := await source.get(fail=False, no_ack=True)) is not None:
                taken.append(message)
            return len(taken) >= count

        await until(take, f"{count} messages in {queue}")
    return taken


async def count(url: str, queue: str) -> int:
    """Messages that are ready in a queue."""
    async with connected(url) as channel:
        declared = await channel.declare_queue(queue, passive=True)
        return declared.declaration_result.message_count or 0
