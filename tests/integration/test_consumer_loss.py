"""Consuming goes on by itself after a queue, a consumer or a connection was lost, with or without a word."""

import asyncio
from functools import partial

import pytest
from aio_pika.abc import AbstractChannel

from common import link, topology
from common.broker import Consumer, Subscription
from common.jobs import Priority
from tests.integration.brokers import connected, consuming, running
from tests.integration.handlers import Handler, declare_all, ring, subscription
from tests.integration.proxy import proxied
from tests.integration.waiting import until
from tests.numbers import count


async def test_a_deleted_queue_comes_back_by_itself(amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "PROBE_SECONDS", 600.0)  # the broker tells
    handler = Handler()
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        async with connected(amqp_url) as channel:
            await channel.queue_delete(topology.job_queue(model, Priority.NORMAL))
        await until(lambda: consumer.link.lost.is_set() or not consumer.link.is_up, "the loss is noticed")
        await until(lambda: consumer.link.is_up, "the consumer is connected again")
        job = await ring(amqp_url, model)
        await until(lambda: handler.seen == [job], "the message is handled")
        assert [count(f"charonia_{name}") for name in ("queues_wanted", "queues_consumed")] == [1, 1]
        assert count("charonia_broker_connected", connection="consumer") == 1
    assert [count(f"charonia_{name}") for name in ("queues_wanted", "queues_consumed")] == [1, 0]
    assert count("charonia_broker_connected", connection="consumer") == 0


async def test_what_is_subscribed_while_a_connection_is_furnished_is_consumed_too(amqp_url: str, model: str) -> None:
    furnishing, proceed = asyncio.Event(), asyncio.Event()

    async def dawdle(channel: AbstractChannel) -> None:
        await declare_all(channel, model + "a")
        furnishing.set()
        await proceed.wait()

    handler = Handler()
    consumer = Consumer(amqp_url, "tests")
    slow = Subscription(topology.job_queue(model + "a", Priority.NORMAL), 1, dawdle, handler)
    await consumer.subscribe(slow)
    task = asyncio.create_task(consumer.link.run())
    try:
        await furnishing.wait()
        await consumer.subscribe(subscription(model, handler))
        proceed.set()
        await until(lambda: consumer.link.is_up, "the connection is up")
        async with connected(amqp_url) as channel:
            await declare_all(channel, model)
        job = await ring(amqp_url, model)
        await until(lambda: handler.seen == [job], "the message is handled", 5)
        await consumer.stop(5)
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_consumer_that_is_silently_gone_is_noticed(
    amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PROBE_SECONDS", 0.2)
    handler = Handler()
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        queue, tag = consumer.tags[-1]
        await queue.cancel(tag)  # the broker takes it for our wish and says nothing
        job = await ring(amqp_url, model)
        await until(lambda: handler.seen == [job], "the message is handled")


async def test_a_connection_lost_without_a_word_is_made_anew(
    amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PROBE_SECONDS", 0.2)
    monkeypatch.setattr(link, "CALL_SECONDS", 1.0)
    handler = Handler()
    control = f"control.{model}"
    async with proxied(amqp_url) as proxy:
        consumer = Consumer(proxy.url_of(amqp_url), "tests")
        await consumer.subscribe(subscription(model, handler, prefetch=1))
        await consumer.subscribe(
            Subscription(control, 1, partial(topology.declare_own, queue=control, exchange=topology.CONTROL), handler)
        )
        async with running(consumer.link):
            proxy.silence()
            await until(lambda: not consumer.link.is_up, "the loss is noticed")
            await until(lambda: consumer.link.is_up, "the consumer is connected again", 10)
            # The broker knows of no loss, and the lost consumer is given as much as it could hold.
            jobs = [await ring(amqp_url, model) for _ in range(2)]
            await until(lambda: bool(set(handler.seen) & set(jobs)), "what the lost one does not hold is handled", 5)
