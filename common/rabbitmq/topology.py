"""The names of exchanges and queues, and their one declaration.

Every service declares them on each new connection. A queue that somebody deleted is therefore back with the next
connection.
"""

from collections.abc import Awaitable, Callable

from aio_pika import ExchangeType
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractQueue
from aio_pika.exceptions import ChannelPreconditionFailed

from common.job_states import Priority
from common.settings import QueueType
from common.telemetry.logs import Log

JOBS_EXCHANGE = "charonia.jobs"
EVENTS_EXCHANGE = "charonia.events"
CONTROL_EXCHANGE = "charonia.control"
CHANGES_EXCHANGE = "charonia.changes"
DEAD_LETTERS = "charonia.dead"
NOTIFIER_QUEUE = "notifier.events"
OWN_QUEUE_EXPIRES = 60_000  # ms without a consumer
OWN_QUEUE_LENGTH = 10_000  # messages; the oldest are dropped, and a process that is behind reads the rows in the end

log = Log("broker")

# Valid on RabbitMQ 3.10 and 4.x. The delivery limit is explicit because 4.x defaults to 20, and 3.10 to none. It is far
# above the count of an outage, at one return a second: consumer.py counts the failures of a handler, for both types.
WORK_QUEUE: dict[QueueType, dict[str, str | int]] = {
    "classic": {"x-queue-type": "classic", "x-dead-letter-exchange": DEAD_LETTERS},
    "quorum": {
        "x-queue-type": "quorum",
        "x-delivery-limit": 100_000,
        "x-dead-letter-exchange": DEAD_LETTERS,
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",  # without it, at-least-once silently becomes at-most-once
    },
}


# Nothing brings a lost dead letter back. Each listing returns them, which counts as a delivery.
DEAD_QUEUE: dict[str, str | int] = {
    "x-queue-type": "quorum",
    "x-delivery-limit": 1_000_000,
    "x-max-length": 10_000,
    "x-max-length-bytes": 100 * 1024 * 1024,
    "x-overflow": "drop-head",
}


def job_key(priority: str, model: str) -> str:
    """Return the routing key of a model's jobs, also for a priority that a later release has."""
    return f"job.{priority}.{model}"


def job_queue(model: str, priority: str) -> str:
    """Return the name of a model's queue for a priority."""
    return f"jobs.{model}.{priority}"


async def declare_with(connection: AbstractConnection, declare: Callable[[AbstractChannel], Awaitable[None]]) -> None:
    """Declare something on a channel of its own: a refused declaration closes the channel."""
    channel = await connection.channel()
    await declare(channel)
    await channel.close()


async def declare_exchanges(channel: AbstractChannel, queue_type: QueueType = "classic") -> None:
    """Declare what every service needs: the exchanges, the dead-letter queue, the notifier's queue."""
    await channel.declare_exchange(JOBS_EXCHANGE, ExchangeType.TOPIC, durable=True)
    events = await channel.declare_exchange(EVENTS_EXCHANGE, ExchangeType.TOPIC, durable=True)
    await channel.declare_exchange(CONTROL_EXCHANGE, ExchangeType.FANOUT, durable=True)
    await channel.declare_exchange(CHANGES_EXCHANGE, ExchangeType.FANOUT, durable=True)
    exchange = await channel.declare_exchange(DEAD_LETTERS, ExchangeType.FANOUT, durable=True)
    dead_letters = await declare_dead_queue(channel)
    await dead_letters.bind(exchange)
    notifier = await declare_work_queue(channel, NOTIFIER_QUEUE, queue_type)
    await notifier.bind(events, "#")


async def declare_dead_queue(channel: AbstractChannel) -> AbstractQueue:
    """Declare the queue of dead messages. Use one with other arguments as it is: another release may have made it."""
    try:
        return await channel.declare_queue(DEAD_LETTERS, durable=True, arguments={**DEAD_QUEUE})
    except ChannelPreconditionFailed as error:
        await channel.reopen()
        log.warn_once("broker.dead_queue_differs", error=str(error))
        return await channel.declare_queue(DEAD_LETTERS, passive=True)


async def declare_work_queue(channel: AbstractChannel, name: str, queue_type: QueueType) -> AbstractQueue:
    """Declare a queue of wake-ups. Replace a queue of another type, unless somebody consumes it.

    The rows bring back the wake-ups of a deleted queue. A queue in use is used as it is: services with different
    settings would otherwise delete each other's queues for ever.
    """
    arguments = WORK_QUEUE[queue_type]
    try:
        return await channel.declare_queue(name, durable=True, arguments={**arguments})
    except ChannelPreconditionFailed as error:
        await channel.reopen()
        found = await channel.declare_queue(name, passive=True)
        if found.declaration_result.consumer_count:
            log.error("broker.queue_type_differs", queue=name, error=error)
            return found
        await channel.queue_delete(name)
        log.warning("broker.queue_replaced", queue=name, error=error)
        return await channel.declare_queue(name, durable=True, arguments={**arguments})


async def declare_exclusive_queue(channel: AbstractChannel, queue: str, exchange: str) -> None:
    """Declare a process's own queue on a fanout exchange. It expires a minute after its process.

    The broker's `exclusive` flag would not do: after a connection breaks silently, it locks out the next one until the
    broker notices.
    """
    arguments: dict[str, str | int] = {"x-expires": OWN_QUEUE_EXPIRES, "x-max-length": OWN_QUEUE_LENGTH}
    own = await channel.declare_queue(queue, durable=True, arguments={**arguments})
    await own.bind(exchange)


async def declare_job_queue(
    channel: AbstractChannel, model: str, priority: Priority, queue_type: QueueType = "classic"
) -> None:
    """Declare a model's queue for a priority."""
    queue = await declare_work_queue(channel, job_queue(model, priority), queue_type)
    await queue.bind(JOBS_EXCHANGE, job_key(priority, model))


async def drop_leaderless(channel: AbstractChannel, queue: str) -> bool:
    """Delete a queue that accepts no consumers, if it is empty and unused. Return whether it was deleted.

    A quorum queue may stay without a leader for ever if its broker is killed just after the declaration
    (rabbitmq-server issues 10070 and 15725). The broker lists such a queue, but never answers a call to it.
    """
    found = (await channel.declare_queue(queue, passive=True)).declaration_result
    if found.message_count or found.consumer_count:
        return False
    await channel.queue_delete(queue)
    return True
