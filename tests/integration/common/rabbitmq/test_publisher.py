"""A published message is in a queue, or the publish fails."""

import asyncio
import contextlib

import pytest
from aio_pika import DeliveryMode

from common import ids
from common.errors import BrokerUnavailable, Unroutable
from common.job_states import Priority
from common.rabbitmq import connection, topology
from common.rabbitmq.publisher import Publisher
from deploy.local.servers.rabbitmq import RabbitMQ
from tests.integration.brokers import connected, drain, publishing
from tests.integration.handlers import declare_model_queues
from tests.integration.waiting import until
from tests.support.telemetry.process_metrics import count


async def publish(publisher: Publisher, model: str) -> str:
    """Publish a message. Return its id once the broker has confirmed it."""
    message_id = ids.new()
    key = topology.job_key(Priority.HIGH, model)
    await publisher.publish(topology.JOBS_EXCHANGE, key, b"{}", message_id=message_id, headers={"traceparent": "t"})
    return str(message_id)


async def declare(url: str, model: str) -> str:
    async with connected(url) as channel:
        await topology.declare_exchanges(channel)
        await declare_model_queues(channel, model)
    return topology.job_queue(model, Priority.HIGH)


async def test_a_published_message_is_transient_and_carries_its_id_and_headers(amqp_url: str) -> None:
    queue = await declare(amqp_url, "kept")
    async with publishing(amqp_url) as publisher:
        message_id = await publish(publisher, "kept")
    (message,) = await drain(amqp_url, queue, 1)
    assert (message.message_id, message.body, message.headers["traceparent"]) == (message_id, b"{}", "t")
    assert message.delivery_mode == DeliveryMode.NOT_PERSISTENT


async def test_a_message_that_no_queue_takes_is_unroutable(amqp_url: str) -> None:
    await declare(amqp_url, "known")
    async with publishing(amqp_url) as publisher:
        with pytest.raises(Unroutable, match=r"job\.high\.unknown"):
            await publish(publisher, "unknown")
        assert await publish(publisher, "known")  # the channel is still open


async def test_each_of_many_concurrent_publishes_gets_its_own_outcome(amqp_url: str) -> None:
    await declare(amqp_url, "many")
    async with publishing(amqp_url) as publisher:
        models = ["many" if number % 3 else "nowhere" for number in range(60)]
        outcomes = await asyncio.gather(*(publish(publisher, model) for model in models), return_exceptions=True)
    assert [isinstance(outcome, Unroutable) for outcome in outcomes] == [model == "nowhere" for model in models]


async def test_a_publisher_that_never_connected_fails_at_once() -> None:
    with pytest.raises(BrokerUnavailable):
        await publish(Publisher("amqp://127.0.0.1:1/", "tests"), "any")


async def test_publishing_fails_in_time_during_a_memory_alarm_and_works_after_it(
    rabbitmq: RabbitMQ, amqp_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CALL_SECONDS", 1.0)
    queue = await declare(amqp_url, "late")
    async with publishing(amqp_url) as publisher:

        async def blocked() -> bool:
            with contextlib.suppress(BrokerUnavailable):
                await publish(publisher, "late")
            return count("charonia_broker_blocked") == 1

        try:
            await asyncio.to_thread(rabbitmq.raise_memory_alarm)
            await until(blocked, "the broker has told that it blocks")  # it tells those who publish
            publish_all = asyncio.gather(*(publish(publisher, "late") for _ in range(3)), return_exceptions=True)
            outcomes = await asyncio.wait_for(publish_all, 5)
        finally:
            await asyncio.to_thread(rabbitmq.clear_memory_alarm)
        assert [type(outcome) for outcome in outcomes] == [BrokerUnavailable] * 3

        async def published() -> bool:
            with contextlib.suppress(BrokerUnavailable):
                return bool(await publish(publisher, "late"))
            return False

        await until(published, "publishing works again")
        assert count("charonia_broker_blocked") == 0
    assert await drain(amqp_url, queue, 1)


async def test_a_deleted_exchange_is_declared_again(amqp_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PROBE_SECONDS", 3600.0)  # the closed channel is noticed without a probe
    await declare(amqp_url, "again")
    async with publishing(amqp_url) as publisher:
        async with connected(amqp_url) as channel:
            await channel.exchange_delete(topology.JOBS_EXCHANGE)
        with pytest.raises(BrokerUnavailable):
            await publish(publisher, "again")
        await until(lambda: publisher.connection.current is None, "the loss is noticed")
        await until(lambda: publisher.connection.is_up, "the publisher is connected again")
        with pytest.raises(Unroutable):  # the exchange is there, with no queue behind it
            await publish(publisher, "again")
        await declare(amqp_url, "again")
        assert await publish(publisher, "again")
