"""Names of exchanges and queues, and their one declaration.

Whoever starts first declares, and everybody declares again on each new connection: a queue that somebody
deleted is back with the next one.
"""

from aio_pika import ExchangeType
from aio_pika.abc import AbstractChannel

from common.jobs import Priority

JOBS = "charonia.jobs"
EVENTS = "charonia.events"
CONTROL = "charonia.control"
CHANGES = "charonia.changes"
DEAD = "charonia.dead"
NOTIFIER_QUEUE = "notifier.events"
OWN_EXPIRES = 60_000  # ms without a consumer
OWN_LENGTH = 10_000  # messages; the oldest go first: whoever is behind looks by itself in the end

# Valid on RabbitMQ 3.10 and 4.x. The limit is explicit because 4.x defaults to 20 while 3.10 has none; it only
# guards against a handler that takes its process down, so it is far above what an outage, ours or the broker's, counts
# up to at one return a second. What a handler survives is counted in broker.py.
QUORUM: dict[str, str | int] = {
    "x-queue-type": "quorum",
    "x-delivery-limit": 100_000,
    "x-dead-letter-exchange": DEAD,
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",  # without it at-least-once dead-lettering silently isn't
}


def job_key(priority: Priority, model: str) -> str:
    return f"job.{priority}.{model}"


def job_queue(model: str, priority: Priority) -> str:
    return f"jobs.{model}.{priority}"


async def declare_exchanges(channel: AbstractChannel) -> None:
    """The exchanges, the dead-letter queue and the notifier's queue: what every service counts on."""
    await channel.declare_exchange(JOBS, ExchangeType.TOPIC, durable=True)
    events = await channel.declare_exchange(EVENTS, ExchangeType.TOPIC, durable=True)
    await channel.declare_exchange(CONTROL, ExchangeType.FANOUT, durable=True)
    await channel.declare_exchange(CHANGES, ExchangeType.FANOUT, durable=True)
    dead = await channel.declare_exchange(DEAD, ExchangeType.FANOUT, durable=True)
    # The limit again explicit: looking through the dead letters returns each, which counts as a delivery.
    arguments: dict[str, str | int] = {"x-queue-type": "quorum", "x-delivery-limit": 1_000_000}
    graveyard = await channel.declare_queue(DEAD, durable=True, arguments={**arguments})
    await graveyard.bind(dead)
    notifier = await channel.declare_queue(NOTIFIER_QUEUE, durable=True, arguments={**QUORUM})
    await notifier.bind(events, "#")


async def declare_own(channel: AbstractChannel, queue: str, exchange: str) -> None:
    """A process's own queue of what a fanout exchange tells everybody; it goes a minute after its process.

    Not an exclusive one: a connection lost without a word would lock out the next until the broker notices it too.
    """
    arguments: dict[str, str | int] = {"x-expires": OWN_EXPIRES, "x-max-length": OWN_LENGTH}
    own = await channel.declare_queue(queue, durable=True, arguments={**arguments})
    await own.bind(exchange)


async def declare_model(channel: AbstractChannel, model: str) -> None:
    """The queues of one model, a queue for each priority."""
    for priority in Priority:
        queue = await channel.declare_queue(job_queue(model, priority), durable=True, arguments={**QUORUM})
        await queue.bind(JOBS, job_key(priority, model))


async def drop_leaderless(channel: AbstractChannel, queue: str) -> bool:
    """Deletes a queue that takes no consumers, if nobody can miss it; whether it did.

    A quorum queue that was declared in the moment in which its broker was killed may be left without a leader, for ever
    (rabbitmq-server issues 10070 and 15725): it is listed, and whatever one asks of it is never answered.
    """
    found = (await channel.declare_queue(queue, passive=True)).declaration_result
    if found.message_count or found.consumer_count:
        return False
    await channel.queue_delete(queue)
    return True
