"""What consumes in tests, and the queue it consumes from."""

from functools import partial
from uuid import UUID

from aio_pika import Message as Raw
from aio_pika.abc import AbstractChannel, HeadersType

from common import ids, messages, topology
from common.broker import Subscription
from common.jobs import Priority
from common.messages import JobQueued, Message
from tests.integration.brokers import connected


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


def subscription(
    model: str, handler: Handler, prefetch: int = 10, priority: Priority = Priority.NORMAL
) -> Subscription:
    declare = partial(declare_all, model=model)
    return Subscription(topology.job_queue(model, priority), prefetch, declare, handler)


async def declare_all(channel: AbstractChannel, model: str) -> None:
    await topology.declare_exchanges(channel)
    await topology.declare_model(channel, model)


async def ring(url: str, model: str, body: bytes | None = None, traceparent: str | None = None) -> UUID:
    """The job that a message now in the model's queue names."""
    job = ids.new()
    headers: HeadersType = {"traceparent": traceparent} if traceparent else {}
    async with connected(url) as channel:
        exchange = await channel.get_exchange(topology.JOBS, ensure=False)
        body = messages.encode(JobQueued(job)) if body is None else body
        raw = Raw(body, headers=headers, message_id=str(ids.new()))
        await exchange.publish(raw, topology.job_key(Priority.NORMAL, model))
    return job
