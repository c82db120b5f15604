"""While a broker is down or hangs, publishing fails. Publishing and consuming then resume by themselves."""

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import get_args
from uuid import UUID

import pytest

from common import ids
from common.errors import BrokerUnavailable
from common.job_states import Priority
from common.rabbitmq import connection, messages, topology
from common.rabbitmq.messages import CancelJob
from common.rabbitmq.publisher import Publisher
from common.settings import QueueType
from common.telemetry import logs
from deploy.local.servers.rabbitmq import RabbitMQ
from tests.integration.brokers import connected, consuming, publishing
from tests.integration.handlers import Handler, declare_all, subscription
from tests.integration.waiting import until


@pytest.fixture
def broker(rabbitmq: RabbitMQ) -> Iterator[RabbitMQ]:
    """The broker of all tests, which runs again after each of these."""
    try:
        yield rabbitmq
    finally:
        rabbitmq.thaw()
        if not rabbitmq.probe():
            rabbitmq.start()


@contextmanager
def logging_as_a_service() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("charonia")
    before = root.handlers[:], root.level, ours.level
    logs.configure("json", "INFO")
    try:
        yield
    finally:
        root.handlers[:], root.level, ours.level = before


async def publish(publisher: Publisher, model: str, priority: Priority = Priority.NORMAL) -> UUID:
    """Publish a wake-up. Return its job once the broker has confirmed it."""
    job = ids.new()
    key = topology.job_key(priority, model)
    await publisher.publish(
        topology.JOBS_EXCHANGE, key, messages.encode(CancelJob(job)), message_id=ids.new(), headers={}
    )
    return job


async def test_publishing_and_consuming_resume_after_a_broker_hung(
    broker: RabbitMQ, amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PROBE_SECONDS", 0.2)
    handler = Handler()
    async with publishing(amqp_url) as publisher, consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        broker.freeze()
        try:
            with monkeypatch.context() as patch:
                patch.setattr(connection, "CALL_SECONDS", 1.0)
                with pytest.raises(BrokerUnavailable):
                    await asyncio.wait_for(publish(publisher, model), 10)
                await until(lambda: not publisher.connection.is_up and not consumer.connection.is_up, "both notice it")
        finally:
            broker.thaw()
        await until(lambda: publisher.connection.is_up and consumer.connection.is_up, "both are connected again")
        job = await publish(publisher, model)
        await until(lambda: job in handler.seen, "the message is handled")


async def test_a_connection_that_the_broker_closes_is_one_line(
    broker: RabbitMQ, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_as_a_service():
        async with publishing(broker.url) as publisher:
            lost = publisher.connection.current
            await asyncio.to_thread(broker.close_connections)
            await until(lambda: publisher.connection.current is not lost, "the connection is lost")
            await until(lambda: publisher.connection.is_up, "the connection is back")
    check_lines(capsys.readouterr().err)


async def test_publishing_and_consuming_resume_after_a_broker_was_killed(
    broker: RabbitMQ, amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_as_a_service():
        await resume_after_kill(broker, amqp_url, model, monkeypatch)
    check_lines(capsys.readouterr().err)


async def resume_after_kill(broker: RabbitMQ, amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    handler, models = Handler(), {kind: f"{model}.{kind}" for kind in get_args(QueueType)}
    async with publishing(amqp_url) as publisher, consuming(amqp_url) as consumer:
        for kind, name in models.items():
            await consumer.subscribe(subscription(name, handler, queue_type=kind))
        before = {await publish(publisher, name) for name in models.values()}
        await until(lambda: set(handler.seen) == before, "the messages are handled")
        async with connected(amqp_url) as channel:
            # The newest queue, a quorum queue, is hardly written yet, so the broker never finds a leader for it.
            await declare_all(channel, newest := f"{model}b", "quorum")
            await asyncio.to_thread(broker.kill)
        with monkeypatch.context() as patch:  # until all works again
            patch.setattr(connection, "CALL_SECONDS", 2.0)
            await consumer.subscribe(subscription(newest, handler, priority=Priority.LOW, queue_type="quorum"))
            with pytest.raises(BrokerUnavailable):
                await publish(publisher, newest)
            await until(lambda: not publisher.connection.is_up, "the publisher notices it")
            await until(lambda: not consumer.connection.is_up, "the consumer notices it too")
            await asyncio.to_thread(broker.start)
            await until(lambda: publisher.connection.is_up and consumer.consumed == 3, "all queues are consumed", 60)
        after = {await publish(publisher, name) for name in models.values()}
        after.add(await publish(publisher, newest, Priority.LOW))
        await until(lambda: after <= set(handler.seen), "the messages are handled")


def check_lines(text: str) -> None:
    """Check that the loss of a connection is one line with its cause, and that no library has logged it."""
    lines = [json.loads(line) for line in text.splitlines()]
    others = [line["event"] for line in lines if not line["event"].startswith("broker.")]
    assert all("RPC call <Basic.Consume" in event for event in others)  # of the queue without a leader
    ours = [line for line in lines if line.get("connection") == "tests-publisher"]
    named = [line for line in ours if line["event"] == "broker.disconnected"]
    assert [bool(line["error"]) for line in named] == [True]
    kinds = {f"broker.{kind}" for kind in ("connected", "disconnected", "unreachable", "setup_failed")}
    assert {line["event"] for line in ours} <= kinds
    errors = [line["error"] for line in ours if line["event"] == "broker.unreachable"]
    assert all(earlier != later for earlier, later in pairwise(errors))
