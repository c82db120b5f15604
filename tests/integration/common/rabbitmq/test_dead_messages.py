"""Dead-lettered messages are listed and requeued."""

import asyncio
import sys

import pytest
from aio_pika import Message

from common import ids
from common.job_states import Priority
from common.rabbitmq import connection, dead_messages, topology
from common.rabbitmq.consumer import QUEUE_HEADER, REASON_HEADER
from tests.integration.brokers import connected, count, drain, publishing
from tests.integration.handlers import declare_model_queues
from tests.integration.waiting import until
from tests.support.telemetry import process_metrics


async def test_dead_messages_are_counted_listed_and_requeued(amqp_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PROBE_SECONDS", 0.1)
    model = f"m{ids.new().hex}"
    queue = topology.job_queue(model, Priority.HIGH)
    async with connected(amqp_url) as channel:
        await topology.declare_exchanges(channel)
        await declare_model_queues(channel, model)
        dead = await channel.get_exchange(topology.DEAD_LETTERS, ensure=False)
        headers = {QUEUE_HEADER: queue, REASON_HEADER: "of a newer version", "traceparent": "00-a-b-01"}
        await dead.publish(Message(b"new", headers={**headers}), queue)
        await dead.publish(Message(b"lost"), "nowhere")

    async def arrived() -> bool:
        return await count(amqp_url, topology.DEAD_LETTERS) >= 2

    await until(arrived, "both are there")
    async with publishing(amqp_url):
        await until(lambda: process_metrics.count("charonia_broker_dead_messages") == 2, "they are counted")
    listed = await dead_messages.list_dead(amqp_url, 100)
    assert f"{queue}: of a newer version: b'new'" in listed
    assert any("unknown queue" in line and "b'lost'" in line for line in listed)

    await until(arrived, "both are there still")
    assert await dead_messages.requeue(amqp_url, 100) == [f"back to {queue}: b'new'"]
    (message,) = await drain(amqp_url, queue, 1)
    assert (message.body, message.headers["traceparent"]) == (b"new", "00-a-b-01")
    assert not {QUEUE_HEADER, REASON_HEADER} & message.headers.keys()
    (left,) = await drain(amqp_url, topology.DEAD_LETTERS, 1)
    assert left.body == b"lost"


async def test_a_message_whose_queue_is_gone_stays(amqp_url: str) -> None:
    async with connected(amqp_url) as channel:
        await topology.declare_exchanges(channel)
        dead = await channel.get_exchange(topology.DEAD_LETTERS, ensure=False)
        await dead.publish(Message(b"homeless", headers={QUEUE_HEADER: "jobs.gone.high"}), "jobs.gone.high")
    assert await dead_messages.requeue(amqp_url, 100) == []
    (left,) = await drain(amqp_url, topology.DEAD_LETTERS, 1)
    assert left.body == b"homeless"


async def test_the_command_prints_what_it_did(
    amqp_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["dead_messages", *arguments])
        assert await asyncio.to_thread(dead_messages.main) == 0
        return capsys.readouterr().out

    monkeypatch.setenv("CHARONIA_AMQP_URL", amqp_url)
    model = f"m{ids.new().hex}"
    queue = topology.job_queue(model, Priority.HIGH)
    async with connected(amqp_url) as channel:
        await topology.declare_exchanges(channel)
        await declare_model_queues(channel, model)
        dead = await channel.get_exchange(topology.DEAD_LETTERS, ensure=False)
        await dead.publish(Message(b"new", headers={QUEUE_HEADER: queue, REASON_HEADER: "too new"}), queue)
    assert await run("list") == f"{queue}: too new: b'new'\n"
    assert await run("requeue") == f"back to {queue}: b'new'\n"
    assert await run("list") == "none\n"
    assert await count(amqp_url, queue) == 1
