"""A process notices within 5 seconds that its node is gone, and goes on with another. A blocked node is not gone."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
from aio_pika.abc import AbstractChannel

from common import ids
from common.errors import BrokerUnavailable
from common.job_states import Priority
from common.rabbitmq import connection, liveness, topology
from common.rabbitmq.connection import connect
from common.rabbitmq.consumer import Consumer
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.subscription import Subscription
from common.server_urls import split_by_node
from deploy.local.servers.rabbitmq import RabbitMQ
from tests.integration.brokers import consuming, publishing
from tests.integration.handlers import Handler, declare_all, publish_wake_up, subscription
from tests.integration.proxy import Proxy, proxied
from tests.integration.waiting import until

NOTICE_SECONDS = 12.0  # 5 and what a busy machine adds; a missing heartbeat is noticed after more than 20


class Node(msgspec.Struct):
    """The broker through a proxy. To its clients, the proxy is what they lose."""

    proxy: Proxy
    name: str

    def kill(self) -> None:
        self.proxy.close()

    def cut_off(self) -> None:
        self.proxy.cut_off()
        self.proxy.forsake_server()  # so that messages for the lost client go elsewhere


class Nodes(msgspec.Struct):
    url: str
    first: Node
    second: Node


@pytest.fixture
async def nodes(amqp_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Nodes]:
    """Two nodes. Every process tries the first one first."""
    monkeypatch.setattr(random, "shuffle", lambda _: None)
    monkeypatch.setattr(connection, "PROBE_SECONDS", 60.0)  # so that no probe notices what the calls to a node miss
    async with proxied(amqp_url) as first, proxied(amqp_url) as second:
        found = [Node(proxy, *split_by_node(proxy.url_of(amqp_url))) for proxy in (first, second)]
        (address,) = split_by_node(amqp_url)
        yield Nodes(amqp_url.replace(address, ",".join(node.name for node in found)), *found)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first node has more time for the first connection, because a busy machine may need two seconds."""
    monkeypatch.setattr(connection, "QUICK_CONNECT_SECONDS", connection.CALL_SECONDS)


async def publish(publisher: Publisher) -> None:
    key = topology.CONTROL_EXCHANGE
    await publisher.publish(key, "", b"{}", message_id=ids.new(), headers={})


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("fault", [Node.kill, Node.cut_off])
async def test_a_lost_node_is_noticed_and_another_takes_over(
    nodes: Nodes, amqp_url: str, model: str, fault: Callable[[Node], None]
) -> None:
    handler = Handler()
    async with publishing(nodes.url) as publisher, consuming(nodes.url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        both = publisher.connection, consumer.connection
        assert {each.node for each in both} == {nodes.first.name}
        fault(nodes.first)
        await until(lambda: nodes.first.name not in {each.node for each in both}, "both notice it", NOTICE_SECONDS)
        await until(lambda: {each.node for each in both} == {nodes.second.name}, "both go on")
        job = await publish_wake_up(amqp_url, model)
        await until(lambda: handler.seen == [job], "the message is handled")


@pytest.mark.usefixtures("unhurried")
async def test_a_node_that_is_lost_while_queues_are_declared_is_noticed(nodes: Nodes, model: str) -> None:
    async def declare(channel: AbstractChannel) -> None:
        if consumer.connection._nodes.name == nodes.first.name:
            nodes.first.cut_off()
        await declare_all(channel, model)

    consumer = Consumer(nodes.url, "tests")
    await consumer.subscribe(Subscription(topology.job_queue(model, Priority.NORMAL), 1, declare, Handler()))
    connecting = asyncio.create_task(consumer.connection.run())
    try:
        await until(lambda: not nodes.first.proxy.connected, "the node is lost")
        await until(lambda: consumer.connection._nodes.name != nodes.first.name, "that is noticed", NOTICE_SECONDS)
        await until(lambda: consumer.connection.node == nodes.second.name, "another takes over")
        await consumer.stop(5)
    finally:
        connecting.cancel()
        await asyncio.wait([connecting])


@pytest.mark.parametrize("fault", [Node.kill, Node.cut_off])
async def test_a_command_finds_the_node_that_answers(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, fault: Callable[[Node], None]
) -> None:
    monkeypatch.setattr(connection, "CALL_SECONDS", 30.0)  # for the last node; the one before has less
    fault(nodes.first)
    async with await asyncio.wait_for(connect(nodes.url, "tests"), NOTICE_SECONDS) as opened:
        assert opened.transport is not None
        assert str(opened.transport.connection.url.port) in nodes.second.name


@pytest.mark.usefixtures("unhurried")
async def test_a_node_that_blocks_publishers_keeps_them(
    nodes: Nodes, rabbitmq: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory alarm is the whole cluster's."""
    monkeypatch.setattr(liveness, "PING_SECONDS", 0.05)
    monkeypatch.setattr(liveness, "STEP_SECONDS", 1.5)  # a busy broker answers within three of them
    monkeypatch.setattr(connection, "PROBE_SECONDS", 0.2)
    monkeypatch.setattr(connection, "CALL_SECONDS", 5.0)
    async with publishing(nodes.url) as publisher:
        before = publisher.connection.current
        await asyncio.to_thread(rabbitmq.raise_memory_alarm)
        try:
            with pytest.raises(BrokerUnavailable):
                await publish(publisher)  # waits for longer than a node has for an answer
            assert publisher.connection.is_blocked
        finally:
            await asyncio.to_thread(rabbitmq.clear_memory_alarm)
        await until(lambda: not publisher.connection.is_blocked, "the broker unblocks")
        assert publisher.connection.current is before
