"""A broker that goes away: publishers say so, and publishing and consuming resume by themselves."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from aio_pika.abc import AbstractChannel

from common import ids, messages, topology
from common.broker import Publisher, Subscription
from common.errors import BrokerUnavailable
from common.jobs import Priority
from common.messages import JobQueued, Message
from deploy.local.ports import free_ports
from deploy.local.rabbitmq import RabbitMQ
from tests.integration.brokers import consuming, publishing
from tests.integration.waiting import until


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[RabbitMQ]:
    """A broker that only this test uses, because it stops it."""
    server = RabbitMQ(tmp_path, *free_ports(3))
    try:
        server.start()
        yield server
    finally:
        server.stop()


async def publish(publisher: Publisher) -> UUID:
    """The job whose doorbell the broker has."""
    job = ids.new()
    key = topology.job_key(Priority.HIGH, "echo")
    await publisher.publish(topology.JOBS, key, messages.encode(JobQueued(job)), message_id=ids.new(), headers={})
    return job


async def test_publishing_and_consuming_resume_after_a_restart(own_broker: RabbitMQ) -> None:
    seen: list[UUID] = []

    async def declare(channel: AbstractChannel) -> None:
        await topology.declare_model(channel, "echo")

    async def handle(message: Message, traceparent: str | None) -> None:
        assert isinstance(message, JobQueued)
        seen.append(message.job_id)

    async with publishing(own_broker.url) as publisher, consuming(own_broker.url) as consumer:
        await consumer.subscribe(Subscription(topology.job_queue("echo", Priority.HIGH), 10, declare, handle))
        before = await publish(publisher)
        await until(lambda: seen == [before], "the message is handled")
        await asyncio.to_thread(own_broker.stop)
        with pytest.raises(BrokerUnavailable):
            await publish(publisher)
        assert not await publisher.link.check()
        await until(lambda: not consumer.link.is_up, "the consumer notices it too")
        await asyncio.to_thread(own_broker.start)
        await until(lambda: publisher.link.is_up and consumer.link.is_up, "both are connected again")
        after = await publish(publisher)
        await until(lambda: seen == [before, after], "the message is handled")
