"""While a broker is down or hangs, publishing fails. Publishing and consuming then resume by themselves."""

import asyncio
import json
import logging
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
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
from deploy.local.processes.ports import free_ports
from deploy.local.servers.rabbitmq import RabbitMQ
from tests.integration.brokers import connected, consuming, publishing
from tests.integration.handlers import Handler, declare_all, subscription
from tests.integration.waiting import until


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[RabbitMQ]:
    """A broker of this test alone, because the test stops it."""
    server = RabbitMQ(tmp_path, *free_ports(3))
    try:
        server.start()
        yield server
    finally:
        server.stop()


async def publish(publisher: Publisher, model: str, priority: Priority = Priority.NORMAL) -> UUID:
    """Publish a wake-up. Return its job once the broker has confirmed it."""
    job = ids.new()
    key = topology.job_key(priority, model)
    await publisher.publish(
        topology.JOBS_EXCHANGE, key, messages.encode(CancelJob(job)), message_id=ids.new(), headers={}
    )
    return job


@pytest.mark.parametrize("queue_type", get_args(QueueType))
async def test_publishing_and_consuming_resume_after_a_broker_was_killed(
    own_broker: RabbitMQ, model: str, monkeypatch: pytest.MonkeyPatch, queue_type: QueueType
) -> None:
    handler = Handler()
    async with publishing(own_broker.url) as publisher, consuming(own_broker.url) as consumer:
        await consumer.subscribe(subscription(model, handler, queue_type=queue_type))
        before = await publish(publisher, model)
        await until(lambda: handler.seen == [before], "the message is handled")
        async with connected(own_broker.url) as channel:
            # The newest queue, a quorum queue, is hardly written yet, so the broker never finds a leader for it.
            await declare_all(channel, newest := f"{model}b", "quorum")
            await asyncio.to_thread(own_broker.kill)
        with monkeypatch.context() as patch:  # until all works again
            patch.setattr(connection, "CALL_SECONDS", 2.0)
            await consumer.subscribe(subscription(newest, handler, priority=Priority.LOW, queue_type="quorum"))
            with pytest.raises(BrokerUnavailable):
                await publish(publisher, model)
            await until(lambda: not publisher.connection.is_up, "the publisher notices it")
            await until(lambda: not consumer.connection.is_up, "the consumer notices it too")
            await asyncio.to_thread(own_broker.start)
            await until(lambda: publisher.connection.is_up and consumer.consumed == 2, "both queues are consumed", 60)
        after = {await publish(publisher, model), await publish(publisher, newest, Priority.LOW)}
        await until(lambda: after <= set(handler.seen), "the messages are handled")


async def test_publishing_and_consuming_resume_after_a_broker_hung(
    rabbitmq: RabbitMQ, amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PROBE_SECONDS", 0.2)
    handler = Handler()
    async with publishing(amqp_url) as publisher, consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        rabbitmq.freeze()
        try:
            with monkeypatch.context() as patch:
                patch.setattr(connection, "CALL_SECONDS", 1.0)
                with pytest.raises(BrokerUnavailable):
                    await asyncio.wait_for(publish(publisher, model), 10)
                await until(lambda: not publisher.connection.is_up and not consumer.connection.is_up, "both notice it")
        finally:
            rabbitmq.thaw()
        await until(lambda: publisher.connection.is_up and consumer.connection.is_up, "both are connected again")
        job = await publish(publisher, model)
        await until(lambda: job in handler.seen, "the message is handled")


@pytest.mark.parametrize("end", ["kill", "stop", "close_connections"])
async def test_a_lost_broker_is_one_line_of_ours(
    own_broker: RabbitMQ, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root, ours = logging.getLogger(), logging.getLogger("charonia")
    before = root.handlers[:], root.level, ours.level
    logs.configure("json", "INFO")
    try:
        async with publishing(own_broker.url) as publisher:
            before_end = publisher.connection.current
            await asyncio.to_thread(getattr(own_broker, end))
            await until(lambda: publisher.connection.current is not before_end, "the connection is lost")
            if end != "close_connections":
                await asyncio.to_thread(own_broker.start)
            await until(lambda: publisher.connection.is_up, "the connection is back")
    finally:
        root.handlers[:], root.level, ours.level = before
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    named = [line for line in lines if line["event"] == "broker.disconnected"]
    assert [bool(line["error"]) for line in named] == [True]
    kinds = {f"broker.{kind}" for kind in ("connected", "disconnected", "unreachable", "setup_failed")}
    assert {line["event"] for line in lines} <= kinds
    errors = [line["error"] for line in lines if line["event"] == "broker.unreachable"]
    assert all(earlier != later for earlier, later in pairwise(errors))
