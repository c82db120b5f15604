"""Consuming resumes by itself after a queue, a consumer or a connection is lost, noticed or silently."""

import asyncio
from functools import partial

import pytest
from aio_pika.abc import AbstractChannel

from common.job_states import Priority
from common.rabbitmq import connection, topology
from common.rabbitmq.consumer import Consumer
from common.rabbitmq.subscription import Subscription
from tests.integration.brokers import connected, consuming, find_tag, running
from tests.integration.handlers import Handler, declare_all, publish_wake_up, subscription
from tests.integration.proxy import proxied
from tests.integration.waiting import until
from tests.support.telemetry.process_metrics import count


async def test_a_deleted_queue_is_declared_again(amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PROBE_SECONDS", 600.0)  # the broker cancels the consumer
    handler = Handler()
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        lost = find_tag(consumer, queue := topology.job_queue(model, Priority.NORMAL))
        async with connected(amqp_url) as channel:
            await channel.queue_delete(queue)
        await until(lambda: find_tag(consumer, queue) not in (lost, None), "the queue is consumed again")
        job = await publish_wake_up(amqp_url, model)
        await until(lambda: handler.seen == [job], "the message is handled")
        assert [count(f"charonia_{name}") for name in ("queues_expected", "queues_consumed")] == [1, 1]
        assert count("charonia_broker_connected", connection="consumer") == 1
    assert [count(f"charonia_{name}") for name in ("queues_expected", "queues_consumed")] == [1, 0]
    assert count("charonia_broker_connected", connection="consumer") == 0


async def test_a_subscription_made_during_the_setup_is_consumed_too(amqp_url: str, model: str) -> None:
    setting_up, proceed = asyncio.Event(), asyncio.Event()

    async def declare_slowly(channel: AbstractChannel) -> None:
        await declare_all(channel, model + "a")
        setting_up.set()
        await proceed.wait()

    handler = Handler()
    consumer = Consumer(amqp_url, "tests")
    slow = Subscription(topology.job_queue(model + "a", Priority.NORMAL), 1, declare_slowly, handler)
    await consumer.subscribe(slow)
    task = asyncio.create_task(consumer.connection.run())
    try:
        await setting_up.wait()
        await consumer.subscribe(subscription(model, handler))
        proceed.set()
        await until(lambda: consumer.connection.is_up, "the connection is up")
        async with connected(amqp_url) as channel:
            await declare_all(channel, model)
        job = await publish_wake_up(amqp_url, model)
        await until(lambda: handler.seen == [job], "the message is handled")
        await consumer.stop(5)
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_consumer_lost_silently_is_noticed(amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PROBE_SECONDS", 0.2)
    handler = Handler()
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        name = topology.job_queue(model, Priority.NORMAL)
        await until(lambda: find_tag(consumer, name) is not None, "the queue is consumed, also if the broker was slow")
        assert consumer._pool is not None
        queue, tag = dict(consumer._pool.take_turn(1))[name].consumed[name]
        await queue.cancel(tag)  # the broker takes this for our own wish, and does not tell us
        job = await publish_wake_up(amqp_url, model)
        await until(lambda: handler.seen == [job], "the message is handled")


async def test_a_connection_lost_silently_is_opened_again(
    amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PROBE_SECONDS", 0.2)
    monkeypatch.setattr(connection, "CALL_SECONDS", 1.0)
    handler = Handler()
    control = f"control.{model}"
    async with proxied(amqp_url) as proxy:
        consumer = Consumer(proxy.url_of(amqp_url), "tests")
        await consumer.subscribe(subscription(model, handler, prefetch=1))
        await consumer.subscribe(
            Subscription(
                control,
                1,
                partial(topology.declare_exclusive_queue, queue=control, exchange=topology.CONTROL_EXCHANGE),
                handler,
            )
        )
        async with running(consumer.connection):
            lost = consumer._pool
            proxy.silence()
            await until(lambda: not consumer.connection.is_up, "the loss is noticed")
            await until(lambda: consumer.connection.is_up, "the consumer is connected again", 40)
            assert lost is not None
            await until(lambda: not lost._tasks, "the lost connection consumes nothing any more")
            # The broker has not noticed the loss, so the lost consumer still gets its prefetch.
            jobs = [await publish_wake_up(amqp_url, model) for _ in range(2)]
            await until(lambda: bool(set(handler.seen) & set(jobs)), "what the lost consumer does not hold is handled")
