"""A message handler for tests, its subscription, and a wake-up for it."""

from functools import partial
from uuid import UUID

from aio_pika import Message as Raw
from aio_pika.abc import AbstractChannel, HeadersType

from common import ids
from common.job_states import Priority
from common.rabbitmq import messages, topology
from common.rabbitmq.messages import CancelJob, Message
from common.rabbitmq.subscription import Subscription
from common.settings import QueueType
from tests.integration.brokers import connected


class Handler:
    """Records the jobs of messages. Raises the exceptions in `plan`, one for each message."""

    def __init__(self, *plan: Exception) -> None:
        self.plan = list(plan)
        self.seen: list[UUID] = []
        self.traceparents: list[str | None] = []

    async def __call__(self, message: Message, traceparent: str | None) -> None:
        assert isinstance(message, CancelJob)
        self.seen.append(message.job_id)
        self.traceparents.append(traceparent)
        if self.plan:
            raise self.plan.pop(0)


def subscription(
    model: str,
    handler: Handler,
    prefetch: int = 10,
    priority: Priority = Priority.NORMAL,
    queue_type: QueueType = "classic",
) -> Subscription:
    """Return a subscription to one of the model's queues."""
    declare = partial(declare_all, model=model, queue_type=queue_type)
    return Subscription(topology.job_queue(model, priority), prefetch, declare, handler)


async def declare_all(channel: AbstractChannel, model: str, queue_type: QueueType = "classic") -> None:
    """Declare the exchanges and the model's queues."""
    await topology.declare_exchanges(channel)
    await declare_model_queues(channel, model, queue_type)


async def declare_model_queues(channel: AbstractChannel, model: str, queue_type: QueueType = "classic") -> None:
    """Declare the queues of one model, one for each priority."""
    for priority in Priority:
        await topology.declare_job_queue(channel, model, priority, queue_type)


async def publish_wake_up(url: str, model: str, body: bytes | None = None, traceparent: str | None = None) -> UUID:
    """Publish a message to the model's queue. Return its job."""
    job = ids.new()
    headers: HeadersType = {"traceparent": traceparent} if traceparent else {}
    async with connected(url) as channel:
        exchange = await channel.get_exchange(topology.JOBS_EXCHANGE, ensure=False)
        body = messages.encode(CancelJob(job)) if body is None else body
        raw = Raw(body, headers=headers, message_id=str(ids.new()))
        await exchange.publish(raw, topology.job_key(Priority.NORMAL, model))
    return job
