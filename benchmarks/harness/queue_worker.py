"""The consumers of a dispatcher with many models, without Triton, and a publisher of wake-ups for them."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from benchmarks.harness.bench import BenchmarkFailed
from common import ids
from common.job_states import Priority
from common.rabbitmq import messages, topology
from common.rabbitmq.consumer import Consumer
from common.rabbitmq.messages import JobsQueued, Message, QueuedJob
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.subscription import Subscription
from common.settings import QueueType

MODELS = 100
QUEUES = MODELS * len(Priority)
PREFETCH = 4
RATE = 100  # wake-ups per second
START_SECONDS, END_SECONDS, POLL_SECONDS = 60.0, 5.0, 0.01


class QueueWorker:
    """The consumers of one dispatcher."""

    _consumer: Consumer
    _running: asyncio.Task[None]

    def __init__(self) -> None:
        self._delays: list[float] = []

    async def start(self, url: str, name: str, queue_type: QueueType) -> float:
        """Consume all queues. Return the seconds that it took."""
        self._consumer = Consumer(url, name, queue_type)
        for model in name_models():
            for priority in Priority:
                declare = partial(topology.declare_job_queue, model=model, priority=priority, queue_type=queue_type)
                queue = topology.job_queue(model, priority)
                await self._consumer.subscribe(Subscription(queue, PREFETCH, declare, self._handle, group=model))
        began = time.monotonic()
        self._running = asyncio.create_task(self._consumer.connection.run())
        await until(lambda: self._consumer.consumed == QUEUES, "a dispatcher consumes all queues")
        return time.monotonic() - began

    async def restart(self) -> float:
        """Wait until the connection is lost. Return the seconds until all queues are consumed again."""
        await until(lambda: not self._consumer.consumed, "the connection is lost")
        began = time.monotonic()
        await until(lambda: self._consumer.consumed == QUEUES, "a dispatcher consumes all queues again")
        return time.monotonic() - began

    async def take_delays(self) -> list[float]:
        """Return how many ms each wake-up took."""
        taken, self._delays = self._delays, []
        return taken

    async def stop(self) -> None:
        await self._consumer.stop(END_SECONDS)
        await end(self._running)

    async def _handle(self, message: Message, traceparent: str | None) -> None:
        self._delays.append((time.monotonic() - float(traceparent or "nan")) * 1000)


def name_models() -> list[str]:
    return [f"model{number}" for number in range(MODELS)]


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds, for START_SECONDS at most."""
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"not within {START_SECONDS:g} s: {what}")
        await asyncio.sleep(POLL_SECONDS)


async def end(running: asyncio.Task[None]) -> None:
    running.cancel()
    await asyncio.wait([running])


async def publish(url: str, queue_type: QueueType, seconds: float) -> int:
    """Publish wake-ups for all queues in turn, as gateways do. Return how many were confirmed."""
    publisher = Publisher(url, "growth", queue_type)
    running = asyncio.create_task(publisher.connection.run())
    await until(lambda: publisher.connection.is_up, "the publisher is connected")
    keys = [topology.job_key(priority, model) for model in name_models() for priority in Priority]
    body, count = messages.encode(JobsQueued([QueuedJob(ids.new(), ids.new())])), int(seconds * RATE)
    begin = time.monotonic()
    for number in range(count):
        await asyncio.sleep(begin + number / RATE - time.monotonic())
        headers = {"traceparent": f"{time.monotonic()}"}  # which consumers hand on
        key = keys[number % len(keys)]
        await publisher.publish(topology.JOBS_EXCHANGE, key, body, message_id=ids.new(), headers=headers)
    await asyncio.sleep(END_SECONDS / 5)
    await end(running)
    return count
