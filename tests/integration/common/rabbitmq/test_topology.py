"""Queues get the type of the settings. A queue of another type is replaced when nobody uses it, and not before."""

from collections.abc import Sequence

import pytest
from aio_pika import Message
from aio_pika.exceptions import ChannelPreconditionFailed

from common.errors import Reject
from common.job_states import Priority
from common.rabbitmq import topology
from common.rabbitmq.topology import WORK_QUEUE
from common.settings import QueueType
from tests.integration.brokers import connected, consuming, count, drain, publishing
from tests.integration.handlers import Handler, declare_all, publish_wake_up, subscription
from tests.integration.waiting import until

CHANGES: Sequence[tuple[QueueType, QueueType]] = [("quorum", "classic"), ("classic", "quorum")]


async def has_type(url: str, queue: str, queue_type: QueueType) -> bool:
    """Return whether a declaration with this type fits the queue."""
    async with connected(url) as channel:
        try:
            await channel.declare_queue(queue, durable=True, arguments={**WORK_QUEUE[queue_type]})
        except ChannelPreconditionFailed:
            return False
    return True


@pytest.mark.parametrize(("before", "after"), CHANGES)
async def test_an_unused_queue_of_another_type_is_replaced(
    amqp_url: str, model: str, before: QueueType, after: QueueType
) -> None:
    queue = topology.job_queue(model, Priority.NORMAL)
    async with connected(amqp_url) as channel:
        await declare_all(channel, model, before)
        await channel.default_exchange.publish(Message(b"lost"), queue)
    assert await has_type(amqp_url, queue, before)
    handler = Handler()
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler, queue_type=after))
        assert await has_type(amqp_url, queue, after)
        job = await publish_wake_up(amqp_url, model)
        await until(lambda: handler.seen == [job], "the message is handled")


@pytest.mark.parametrize(("before", "after"), CHANGES)
async def test_services_with_different_settings_share_the_queues(
    amqp_url: str, model: str, before: QueueType, after: QueueType, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = Handler(), Handler()
    async with consuming(amqp_url) as one, consuming(amqp_url) as other:
        await one.subscribe(subscription(model, first, prefetch=1, queue_type=before))
        await other.subscribe(subscription(model, second, prefetch=1, queue_type=after))
        assert caplog.messages.count("broker.queue_type_differs") == 1, "the operator is told"
        jobs = {await publish_wake_up(amqp_url, model) for _ in range(10)}
        await until(lambda: {*first.seen, *second.seen} == jobs, "the messages are handled")
        assert first.seen, "the first consumer still has the queue"
        assert one.connection.is_up
        assert other.connection.is_up
    assert await has_type(amqp_url, topology.job_queue(model, Priority.NORMAL), before)


async def test_dead_messages_stay_when_the_type_changes(amqp_url: str, model: str) -> None:
    async with connected(amqp_url) as channel:
        await topology.declare_exchanges(channel, "quorum")
        await channel.default_exchange.publish(Message(b"dead"), topology.DEAD_LETTERS)
        await topology.declare_exchanges(channel, "classic")
    assert await count(amqp_url, topology.DEAD_LETTERS) == 1


async def test_the_queue_of_dead_messages_is_bounded(amqp_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(topology.DEAD_QUEUE, "x-max-length", 2)
    async with connected(amqp_url) as channel:
        await channel.queue_delete(topology.DEAD_LETTERS)
        await topology.declare_exchanges(channel)
        for number in range(4):
            await channel.default_exchange.publish(Message(b"%d" % number), topology.DEAD_LETTERS)
    assert [message.body for message in await drain(amqp_url, topology.DEAD_LETTERS, 2)] == [b"2", b"3"]


async def test_services_use_a_queue_of_dead_messages_that_another_release_declared(
    amqp_url: str, model: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(amqp_url) as channel:
        await channel.queue_delete(topology.DEAD_LETTERS)
        await channel.declare_queue(topology.DEAD_LETTERS, durable=True, arguments={"x-max-length": 5})
    handler = Handler(Reject("never"))
    async with consuming(amqp_url) as consumer, publishing(amqp_url):
        await consumer.subscribe(subscription(model, handler))
        await publish_wake_up(amqp_url, model)
        await drain(amqp_url, topology.DEAD_LETTERS, 1)
    assert "broker.setup_failed" not in caplog.messages
