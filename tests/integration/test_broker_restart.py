"""A broker that goes away or hangs: publishers say so, and publishing and consuming resume by themselves."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from common import ids, link, messages, topology
from common.broker import Publisher
from common.errors import BrokerUnavailable
from common.jobs import Priority
from common.messages import JobQueued
from deploy.local.ports import free_ports
from deploy.local.rabbitmq import RabbitMQ
from tests.integration.brokers import connected, consuming, publishing
from tests.integration.handlers import Handler, declare_all, subscription
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


async def publish(publisher: Publisher, model: str, priority: Priority = Priority.NORMAL) -> UUID:
    """The job whose doorbell the broker has."""
    job = ids.new()
    key = topology.job_key(priority, model)
    await publisher.publish(topology.JOBS, key, messages.encode(JobQueued(job)), message_id=ids.new(), headers={})
    return job


async def test_publishing_and_consuming_resume_after_a_broker_was_killed(
    own_broker: RabbitMQ, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "CALL_SECONDS", 2.0)
    handler = Handler()
    async with publishing(own_broker.url) as publisher, consuming(own_broker.url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        before = await publish(publisher, model)
        await until(lambda: handler.seen == [before], "the message is handled")
        async with connected(own_broker.url) as channel:
            # The newest queue is hardly written then: this broker will find no leader for it, ever.
            await declare_all(channel, newest := f"{model}b")
            await asyncio.to_thread(own_broker.kill)
        await consumer.subscribe(subscription(newest, handler, priority=Priority.LOW))
        with pytest.raises(BrokerUnavailable):
            await publish(publisher, model)
        await until(lambda: not publisher.link.is_up, "the publisher notices it")
        await until(lambda: not consumer.link.is_up, "the consumer notices it too")
        await asyncio.to_thread(own_broker.start)
        await until(lambda: publisher.link.is_up and consumer.link.is_up, "both are connected again", 40)
        after = [await publish(publisher, model), await publish(publisher, newest, Priority.LOW)]
        await until(lambda: handler.seen == [before, *after], "the messages are handled")


async def test_a_broker_that_hangs_is_noticed_and_all_resumes_when_it_goes_on(
    rabbitmq: RabbitMQ, amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PROBE_SECONDS", 0.2)
    monkeypatch.setattr(link, "CALL_SECONDS", 1.0)
    handler = Handler()
    async with publishing(amqp_url) as publisher, consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        rabbitmq.freeze()
        try:
            with pytest.raises(BrokerUnavailable):
                await asyncio.wait_for(publish(publisher, model), 5)
            await until(lambda: not publisher.link.is_up and not consumer.link.is_up, "both notice it")
        finally:
            rabbitmq.thaw()
        await until(lambda: publisher.link.is_up and consumer.link.is_up, "both are connected again")
        job = await publish(publisher, model)
        await until(lambda: job in handler.seen, "the message is handled")
