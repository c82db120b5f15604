"""Consuming: every message is handled, returned or buried."""

import asyncio

import pytest
from aio_pika.abc import AbstractConnection

from common import broker, link, messages, topology
from common.broker import MAX_FAILURES, QUEUE_HEADER, REASON_HEADER, Consumer
from common.errors import DatabaseUnavailable, Reject, Retry
from common.jobs import Priority
from common.messages import JobQueued, Message
from tests.integration.brokers import consuming, count, drain
from tests.integration.handlers import Handler, ring, subscription
from tests.integration.waiting import until


async def test_a_handled_message_is_gone(amqp_url: str, model: str) -> None:
    handler = Handler()
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        job = await ring(amqp_url, model, traceparent="00-a-b-01")
        await until(lambda: handler.seen == [job], "the message is handled")
    assert handler.traceparents == ["00-a-b-01"]
    assert await count(amqp_url, topology.job_queue(model, Priority.NORMAL)) == 0


@pytest.mark.parametrize("reason", [Retry("not yet"), ValueError("a bug")])
async def test_a_returned_message_comes_again(amqp_url: str, model: str, reason: Exception) -> None:
    handler = Handler(reason, reason)
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        job = await ring(amqp_url, model)
        await until(lambda: handler.seen == [job] * 3, "the message is handled the third time")


@pytest.mark.parametrize("reason", [Retry("the database is away"), DatabaseUnavailable()])
async def test_returns_in_an_outage_count_for_nothing(
    amqp_url: str, model: str, reason: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "PAUSE_SECONDS", 0.0)
    plan = [*[reason] * MAX_FAILURES, *[ValueError("a bug")] * (MAX_FAILURES - 1)]
    handler = Handler(*plan)
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        job = await ring(amqp_url, model)
        await until(lambda: handler.seen == [job] * (len(plan) + 1), "the message is handled in the end")


async def test_a_message_that_breaks_its_handler_again_and_again_is_buried(
    amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "PAUSE_SECONDS", 0.0)
    await drain(amqp_url, topology.DEAD, 0)
    handler = Handler(*[ValueError("a bug")] * MAX_FAILURES)
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        poison = await ring(amqp_url, model)
        (dead,) = await drain(amqp_url, topology.DEAD, 1)
        innocent = await ring(amqp_url, model)
        await until(lambda: innocent in handler.seen, "a later message is handled")
    assert handler.seen == [poison] * MAX_FAILURES + [innocent]
    assert messages.decode(dead.body) == JobQueued(poison)
    assert dead.headers[QUEUE_HEADER] == topology.job_queue(model, Priority.NORMAL)
    assert dead.headers[REASON_HEADER] == f"its handler broke {MAX_FAILURES} times: ValueError('a bug')"


async def test_a_rejected_message_is_buried(amqp_url: str, model: str) -> None:
    handler = Handler(Reject("never"))
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        job = await ring(amqp_url, model)
        (dead,) = await drain(amqp_url, topology.DEAD, 1)
    assert messages.decode(dead.body) == JobQueued(job)
    assert handler.seen == [job]


@pytest.mark.parametrize("body", [b"", b"\xff", b'{"type": "job.queued/2", "job_id": 1}', b'{"type": "job.queued/1"}'])
async def test_a_message_that_cannot_be_decoded_is_buried_unhandled(amqp_url: str, model: str, body: bytes) -> None:
    handler = Handler()
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        await ring(amqp_url, model, body)
        (dead,) = await drain(amqp_url, topology.DEAD, 1)
    assert dead.body == body
    assert handler.seen == []


async def test_no_more_than_the_prefetch_is_taken_and_the_rest_stays(amqp_url: str, model: str) -> None:
    gate = asyncio.Event()

    class Slow(Handler):
        async def __call__(self, message: Message, traceparent: str | None) -> None:
            await super().__call__(message, traceparent)
            await gate.wait()

    handler = Slow()
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler, prefetch=2))
        jobs = [await ring(amqp_url, model) for _ in range(5)]
        queue = topology.job_queue(model, Priority.NORMAL)

        async def rest_waits() -> bool:
            return len(handler.seen) == 2 and await count(amqp_url, queue) == 3

        await until(rest_waits, "two are taken and three wait")
        gate.set()
        await until(lambda: sorted(handler.seen) == sorted(jobs), "all are handled")


async def test_messages_not_handled_in_time_go_back_at_once(amqp_url: str, model: str) -> None:
    class Stuck(Handler):
        async def __call__(self, message: Message, traceparent: str | None) -> None:
            await super().__call__(message, traceparent)
            await asyncio.Event().wait()

    stuck, handler = Stuck(), Handler()
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, stuck))
        job = await ring(amqp_url, model)
        await until(lambda: stuck.seen == [job], "the message is taken")
        await consumer.stop(0.1)
        async with consuming(amqp_url) as other:
            await other.subscribe(subscription(model, handler))
            await until(lambda: handler.seen == [job], "another consumer gets it while the first is still connected")


@pytest.mark.parametrize("loses", [False, True], ids=["watched", "reconnected"])
async def test_a_stopped_consumer_takes_nothing_any_more(
    amqp_url: str, model: str, monkeypatch: pytest.MonkeyPatch, loses: bool
) -> None:
    monkeypatch.setattr(link, "PROBE_SECONDS", 0.2)
    late, handler = Handler(), Handler()
    async with consuming(amqp_url) as consumer, consuming(amqp_url) as other:
        looks = watch(consumer)
        await consumer.subscribe(subscription(model, late))
        await consumer.stop(1)
        if loses:
            consumer.link.lose()
        looks.clear()
        await until(lambda: len(looks) > 1 and consumer.link.is_up, "the watchdog has looked, the connection is up")
        await other.subscribe(subscription(model, handler))
        jobs = {await ring(amqp_url, model) for _ in range(4)}
        await until(lambda: set(handler.seen + late.seen) == jobs, "all are handled")
        assert late.seen == []


def watch(consumer: Consumer) -> list[None]:
    """A list that grows with each look of the watchdog."""
    looks: list[None] = []
    probe = consumer.link.probe

    async def look(connection: AbstractConnection) -> None:
        looks.append(None)
        await probe(connection)

    consumer.link.probe = look
    return looks


async def test_a_rejected_message_is_buried_with_the_reason_and_its_queue(amqp_url: str, model: str) -> None:
    await drain(amqp_url, topology.DEAD, 0)
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, Handler()))
        await ring(amqp_url, model, body=b"{")
        (found,) = await drain(amqp_url, topology.DEAD, 1)
    assert found.body == b"{"
    assert found.headers[QUEUE_HEADER] == topology.job_queue(model, Priority.NORMAL)
    assert "undecodable message" in str(found.headers[REASON_HEADER])
