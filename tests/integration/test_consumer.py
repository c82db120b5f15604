"""Consuming: every message is handled, returned or buried, and a lost queue or connection comes back by itself."""

import asyncio
from functools import partial
from uuid import UUID

import pytest
from aio_pika import Message as Raw
from aio_pika.abc import AbstractChannel, AbstractConnection, HeadersType

from common import ids, link, messages, topology
from common.broker import QUEUE_HEADER, REASON_HEADER, Consumer, Subscription
from common.errors import Reject, Retry
from common.jobs import Priority
from common.messages import JobQueued, Message
from tests.integration.brokers import connected, consuming, count, drain
from tests.integration.waiting import until


class Handler:
    """Notes what comes; raises what is in `plan`, one for each message, as long as there is something."""

    def __init__(self, *plan: Exception) -> None:
        self.plan = list(plan)
        self.seen: list[UUID] = []
        self.traceparents: list[str | None] = []

    async def __call__(self, message: Message, traceparent: str | None) -> None:
        assert isinstance(message, JobQueued)
        self.seen.append(message.job_id)
        self.traceparents.append(traceparent)
        if self.plan:
            raise self.plan.pop(0)


@pytest.fixture
def model() -> str:
    return f"m{ids.new().hex}"


def subscription(model: str, handler: Handler, prefetch: int = 10) -> Subscription:
    declare = partial(declare_all, model=model)
    return Subscription(topology.job_queue(model, Priority.NORMAL), prefetch, declare, handler)


async def declare_all(channel: AbstractChannel, model: str) -> None:
    await topology.declare_exchanges(channel)
    await topology.declare_model(channel, model)


async def ring(url: str, model: str, body: bytes | None = None, traceparent: str | None = None) -> UUID:
    """The job that a message now in the model's queue names."""
    job = ids.new()
    headers: HeadersType = {"traceparent": traceparent} if traceparent else {}
    async with connected(url) as channel:
        exchange = await channel.get_exchange(topology.JOBS, ensure=False)
        raw = Raw(messages.encode(JobQueued(job)) if body is None else body, headers=headers)
        await exchange.publish(raw, topology.job_key(Priority.NORMAL, model))
    return job


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


async def test_a_deleted_queue_comes_back_by_itself(amqp_url: str, model: str) -> None:
    handler = Handler()
    async with consuming(amqp_url) as consumer:
        await consumer.subscribe(subscription(model, handler))
        async with connected(amqp_url) as channel:
            await channel.queue_delete(topology.job_queue(model, Priority.NORMAL))
        await until(lambda: consumer.link.lost.is_set() or not consumer.link.is_up, "the loss is noticed")
        await until(lambda: consumer.link.is_up, "the consumer is connected again")
        job = await ring(amqp_url, model)
        await until(lambda: handler.seen == [job], "the message is handled")


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
