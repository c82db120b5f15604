"""Every consumed message is handled, requeued or dead-lettered."""

import asyncio
from typing import get_args

import msgspec
import pytest
from aio_pika.abc import AbstractChannel, AbstractConnection

from common.errors import DatabaseUnavailable, Reject, Retry, UnknownMessage
from common.job_states import Priority
from common.rabbitmq import connection as connections
from common.rabbitmq import consumer as module
from common.rabbitmq import messages, topology
from common.rabbitmq.consumer import MAX_FAILURES, QUEUE_HEADER, REASON_HEADER, Consumer
from common.rabbitmq.messages import CancelJob, Message
from common.settings import QueueType
from tests.integration.brokers import consuming, count, drain
from tests.integration.handlers import Handler, publish_wake_up, subscription
from tests.integration.waiting import until
from tests.support.telemetry import process_metrics


async def test_a_handled_message_is_gone(amqp_url: str, model: str) -> None:
    handler = Handler()
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        job = await publish_wake_up(amqp_url, model, traceparent="00-a-b-01")
        await until(lambda: handler.seen == [job], "the message is handled")
    assert handler.traceparents == ["00-a-b-01"]
    assert await count(amqp_url, topology.job_queue(model, Priority.NORMAL)) == 0


@pytest.mark.parametrize(("queue_type", "reason"), [("classic", Retry("not yet")), ("quorum", ValueError("a bug"))])
async def test_a_requeued_message_is_delivered_again(
    amqp_url: str, model: str, queue_type: QueueType, reason: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    handler = Handler(reason, reason)
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler, queue_type=queue_type))
        job = await publish_wake_up(amqp_url, model)
        await until(lambda: handler.seen == [job] * 3, "the message is handled the third time")


@pytest.mark.parametrize("reason", [Retry("the database is down"), DatabaseUnavailable()])
async def test_failures_in_an_outage_do_not_count(
    amqp_url: str, model: str, reason: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    plan = [*[reason] * MAX_FAILURES, *[ValueError("a bug")] * (MAX_FAILURES - 1)]
    handler = Handler(*plan)
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        job = await publish_wake_up(amqp_url, model)
        await until(lambda: handler.seen == [job] * (len(plan) + 1), "the message is handled in the end")


@pytest.mark.parametrize("queue_type", get_args(QueueType))
async def test_a_message_whose_handler_always_fails_is_dead_lettered(
    amqp_url: str, model: str, queue_type: QueueType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    await drain(amqp_url, topology.DEAD_LETTERS, 0)
    handler = Handler(*[ValueError("a bug")] * MAX_FAILURES)
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler, queue_type=queue_type))
        poison = await publish_wake_up(amqp_url, model)
        (dead,) = await drain(amqp_url, topology.DEAD_LETTERS, 1)
        innocent = await publish_wake_up(amqp_url, model)
        await until(lambda: innocent in handler.seen, "a later message is handled")
    assert handler.seen == [poison] * MAX_FAILURES + [innocent]
    assert messages.decode(dead.body) == CancelJob(poison)
    assert dead.headers[QUEUE_HEADER] == topology.job_queue(model, Priority.NORMAL)
    assert dead.headers[REASON_HEADER] == f"the handler failed {MAX_FAILURES} times: ValueError('a bug')"


async def test_a_rejected_message_is_dead_lettered(amqp_url: str, model: str) -> None:
    handler = Handler(Reject("never"))
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler, queue_type="quorum"))
        job = await publish_wake_up(amqp_url, model)
        (dead,) = await drain(amqp_url, topology.DEAD_LETTERS, 1)
    assert messages.decode(dead.body) == CancelJob(job)
    assert handler.seen == [job]


async def test_a_consumer_takes_no_more_than_its_prefetch(amqp_url: str, model: str) -> None:
    gate = asyncio.Event()

    class Slow(Handler):
        async def __call__(self, message: Message, traceparent: str | None) -> None:
            await super().__call__(message, traceparent)
            await gate.wait()

    handler = Slow()
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler, prefetch=2))
        jobs = [await publish_wake_up(amqp_url, model) for _ in range(5)]
        queue = topology.job_queue(model, Priority.NORMAL)

        async def rest_waits() -> bool:
            return len(handler.seen) == 2 and await count(amqp_url, queue) == 3

        await until(rest_waits, "two are taken and three wait")
        gate.set()
        await until(lambda: sorted(handler.seen) == sorted(jobs), "all are handled")


async def test_messages_not_handled_in_time_are_requeued_at_once(amqp_url: str, model: str) -> None:
    class Stuck(Handler):
        async def __call__(self, message: Message, traceparent: str | None) -> None:
            await super().__call__(message, traceparent)
            await asyncio.Event().wait()

    stuck, handler = Stuck(), Handler()
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, stuck))
        job = await publish_wake_up(amqp_url, model)
        await until(lambda: stuck.seen == [job], "the message is taken")
        await consumer.stop(0.1)
        async with consuming(amqp_url) as other:
            await other.subscribe(subscription(model, handler))
            await until(lambda: handler.seen == [job], "another consumer gets it while the first is still connected")


@pytest.mark.parametrize("reconnects", [False, True], ids=["watched", "reconnected"])
async def test_a_stopped_consumer_takes_no_more_messages(
    amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch, reconnects: bool
) -> None:
    monkeypatch.setattr(connections, "PROBE_SECONDS", 0.2)
    late, handler = Handler(), Handler()
    async with consuming(amqp_url) as consumer, consuming(amqp_url) as other:
        probes = watch(consumer)
        await consumer.subscribe(subscription(model, late))
        await consumer.stop(1)
        if reconnects:
            consumer.connection.mark_lost()
        probes.clear()
        await until(
            lambda: len(probes) > 1 and consumer.connection.is_up, "the watchdog has probed, the connection is up"
        )
        await other.subscribe(subscription(model, handler))
        jobs = {await publish_wake_up(amqp_url, model) for _ in range(4)}
        await until(lambda: set(handler.seen + late.seen) == jobs, "all are handled")
        assert late.seen == []


async def test_a_first_subscription_that_takes_long_costs_no_connection(
    amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is consumed, a probe finds no consumer."""
    monkeypatch.setattr(connections, "PROBE_SECONDS", 0.02)
    handler = Handler()
    async with consuming(amqp_url) as consumer:
        wanted, probes, first = subscription(model, handler), watch(consumer), consumer.connection.current

        async def declare_late(channel: AbstractChannel) -> None:
            probes.clear()
            await until(lambda: len(probes) > 2, "the watchdog has probed")
            await wanted.declare(channel)

        await consumer.subscribe(msgspec.structs.replace(wanted, declare=declare_late))
        job = await publish_wake_up(amqp_url, model)
        await until(lambda: handler.seen == [job], "the message is handled")
        assert consumer.connection.current is first


def watch(consumer: Consumer) -> list[None]:
    """Return a list that grows with each probe of the watchdog."""
    probes: list[None] = []
    probe = consumer.connection._probe

    async def count_probe(connection: AbstractConnection) -> None:
        probes.append(None)
        await probe(connection)

    consumer.connection._probe = count_probe
    return probes


async def test_a_message_that_cannot_be_decoded_is_dead_lettered_with_the_reason(amqp_url: str, model: str) -> None:
    await drain(amqp_url, topology.DEAD_LETTERS, 0)
    handler = Handler()
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        await publish_wake_up(amqp_url, model, body=b"{")
        (found,) = await drain(amqp_url, topology.DEAD_LETTERS, 1)
    assert handler.seen == []
    assert found.body == b"{"
    assert found.headers[QUEUE_HEADER] == topology.job_queue(model, Priority.NORMAL)
    assert "undecodable message" in str(found.headers[REASON_HEADER])


def count_unknown() -> float:
    return process_metrics.count("charonia_messages_unknown_total") or 0.0


async def test_a_message_of_a_later_release_is_acked_and_counted(
    amqp_url: str, model: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler = Handler(UnknownMessage("a CancelJob does not belong here"))
    before = count_unknown()
    async with consuming(amqp_url) as consumer:
        await drain(amqp_url, topology.DEAD_LETTERS, 0)
        await consumer.subscribe(subscription(model, handler))
        for body in (None, b'{"type":"job.paused/1"}', b'{"type":"job.paused/1","more":1}'):
            await publish_wake_up(amqp_url, model, body=body)
        last = await publish_wake_up(amqp_url, model)
        await until(lambda: last in handler.seen, "a later message is handled")
    assert await count(amqp_url, topology.job_queue(model, Priority.NORMAL)) == 0
    assert await count(amqp_url, topology.DEAD_LETTERS) == 0
    assert count_unknown() - before == 3
    assert caplog.messages.count("message.unknown") == 2
