"""The queues of many models share a few channels, and an error of one queue stays its own."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from common.job_states import Priority
from common.rabbitmq import channel_pool, connection, shared_channel, topology
from common.rabbitmq.channel_pool import CHANNELS
from common.rabbitmq.consumer import Consumer
from common.rabbitmq.messages import Message
from common.rabbitmq.subscription import Subscription
from deploy.local.servers.rabbitmq import RabbitMQ
from tests.integration.brokers import connected, consuming, find_tag, running
from tests.integration.handlers import Handler, declare_model_queues, publish_wake_up, subscription
from tests.integration.waiting import until

MODELS = 40  # with more queues than channels


@pytest.fixture
async def consumer(amqp_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Consumer]:
    """A consumer with one channel for all queues."""
    monkeypatch.setattr(channel_pool, "CHANNELS", 1)
    monkeypatch.setattr(shared_channel, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(connection, "PROBE_SECONDS", 600.0)
    async with consuming(amqp_url) as made:
        yield made


async def test_many_models_take_few_channels(
    rabbitmq: RabbitMQ, amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PROBE_SECONDS", 600.0)  # a probe has a channel of its own for a moment
    consumer, names = Consumer(amqp_url, model), [f"{model}.{number}" for number in range(MODELS)]
    handler = Handler()
    for name in names:
        for priority in Priority:
            declare = partial(topology.declare_job_queue, model=name, priority=priority, queue_type="classic")
            queue = topology.job_queue(name, priority)
            await consumer.subscribe(Subscription(queue, 1, declare, handler, group=name))
    async with running(consumer.connection):
        await until(lambda: consumer.consumed == len(Priority) * MODELS, "all queues are consumed", 60)
        jobs = {await publish_wake_up(amqp_url, name) for name in (names[0], names[-1])}
        await until(lambda: set(handler.seen) == jobs, "messages are handled")
        vhost = amqp_url.rpartition("/")[2]

        async def are_few() -> bool:
            found = await asyncio.to_thread(rabbitmq.ctl, "list_channels", "vhost", "consumer_count")
            lines = (line.partition("\t") for line in found.splitlines())
            counts = [int(count) for name, _, count in lines if name == vhost]
            # Channels that were closed may be listed for a moment. One more is that of the dead letters.
            return (sum(counts), len(counts)) == (len(Priority) * MODELS, CHANNELS + 1)

        await until(are_few, f"{CHANNELS} channels have all consumers")
        await consumer.stop(5)


async def test_a_refused_consumer_disturbs_its_neighbours_once(amqp_url: str, model: str, consumer: Consumer) -> None:
    handler, queue = Handler(), topology.job_queue(model, Priority.NORMAL)
    async with connected(amqp_url) as other:
        await topology.declare_exchanges(other)
        await declare_model_queues(other, model)
        tag = await (await other.get_queue(queue)).consume(ignore, exclusive=True)
        await consumer.subscribe(subscription(neighbour := f"{model}n", handler))
        (_, channel) = consumer_channel(consumer)
        await consumer.subscribe(subscription(model, handler))
        seen = [await publish_wake_up(amqp_url, neighbour)]
        await until(lambda: handler.seen == seen, "the neighbour's message is handled")
        held = channel.consumed[topology.job_queue(neighbour, Priority.NORMAL)]
        assert consumer._pool is not None
        (spare,) = consumer._pool._spare
        attempts: set[float] = set()

        def is_refused_again() -> bool:
            attempts.add(spare._retry_at.get(queue, 0.0))
            return len(attempts) > 3

        await until(is_refused_again, "more attempts are refused")
        assert channel.consumed[topology.job_queue(neighbour, Priority.NORMAL)] is held
        assert consumer.connection.is_up
        await (await other.get_queue(queue)).cancel(tag)
        await until(lambda: consumer.consumed == 2, "the queue is consumed when it is free")
        seen.append(await publish_wake_up(amqp_url, model))
        await until(lambda: handler.seen == seen, "its message is handled")


async def test_a_deleted_queue_leaves_its_neighbours_at_work(amqp_url: str, model: str, consumer: Consumer) -> None:
    gate, ended = asyncio.Event(), asyncio.Event()

    class Slow(Handler):
        async def __call__(self, message: Message, traceparent: str | None) -> None:
            await super().__call__(message, traceparent)
            await gate.wait()
            ended.set()

    slow, neighbour = Slow(), f"{model}n"
    await consumer.subscribe(subscription(neighbour, slow))
    await consumer.subscribe(subscription(model, handler := Handler()))
    job = await publish_wake_up(amqp_url, neighbour)
    await until(lambda: slow.seen == [job], "the neighbour's message is taken")
    lost = find_tag(consumer, queue := topology.job_queue(model, Priority.NORMAL))
    async with connected(amqp_url) as channel:
        await channel.queue_delete(queue)
    await until(lambda: find_tag(consumer, queue) not in (lost, None), "the queue is consumed again")
    again = await publish_wake_up(amqp_url, model)
    await until(lambda: handler.seen == [again], "its message is handled")
    gate.set()
    await until(ended.is_set, "the neighbour's handler was not cancelled")
    assert slow.seen == [job], "and its message came once"


async def test_a_queue_that_cannot_be_declared_is_tried_again(amqp_url: str, model: str, consumer: Consumer) -> None:
    handler, missing = Handler(), topology.job_queue(model, Priority.NORMAL)

    async def declare(channel: AbstractChannel) -> None:
        await channel.declare_queue(missing, passive=True)

    await consumer.subscribe(Subscription(missing, 1, declare, handler))
    await consumer.subscribe(subscription(f"{model}n", handler))
    assert consumer.consumed == 1
    seen = [await publish_wake_up(amqp_url, f"{model}n")]
    await until(lambda: handler.seen == seen, "the neighbour's message is handled")
    async with connected(amqp_url) as channel:
        await declare_model_queues(channel, model)
    await until(lambda: consumer.consumed == 2, "the queue is consumed when it is there")
    seen.append(await publish_wake_up(amqp_url, model))
    await until(lambda: handler.seen == seen, "its message is handled")


async def ignore(_: AbstractIncomingMessage) -> None:
    """Handle nothing."""


def consumer_channel(consumer: Consumer) -> tuple[str, shared_channel.SharedChannel]:
    """Return one consumed queue, and its channel."""
    assert consumer._pool is not None
    (found,) = consumer._pool.take_turn(1)
    return found
