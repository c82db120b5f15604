"""List or requeue dead-lettered messages: `python -m common.rabbitmq.dead_messages list | requeue`.

`requeue` sends each message back to the queue it came from. Use it once the bug is mended that made its handling fail.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aio_pika
import msgspec
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from common.errors import CharoniaError, SettingsError
from common.rabbitmq import topology
from common.rabbitmq.connection import CALL_SECONDS, CONNECTION_ERRORS, connect
from common.rabbitmq.consumer import QUEUE_HEADER, REASON_HEADER
from common.settings import AmqpUrl, load

SHOWN_BYTES = 200  # of a body


class DeadMessageSettings(msgspec.Struct, frozen=True):
    """The one setting of this command."""

    amqp_url: AmqpUrl


@asynccontextmanager
async def open_channel(url: str) -> AsyncIterator[AbstractChannel]:
    """Open a channel on a connection of its own."""
    connection = await connect(url, "charonia-dead-messages")
    async with connection:
        yield await connection.channel(on_return_raises=True)


async def get_dead(channel: AbstractChannel, limit: int) -> list[AbstractIncomingMessage]:
    """Get up to `limit` messages. The caller acks or requeues them."""
    queue = await channel.get_queue(topology.DEAD_LETTERS, ensure=False)
    found: list[AbstractIncomingMessage] = []
    while len(found) < limit and (message := await queue.get(fail=False, timeout=CALL_SECONDS)) is not None:
        found.append(message)
    return found


def describe(message: AbstractIncomingMessage) -> str:
    """Return a line with the queue, the reason and the start of the body."""
    queue = str(message.headers.get(QUEUE_HEADER) or "unknown queue")
    reason = str(message.headers.get(REASON_HEADER) or "rejected by the broker")
    return f"{queue}: {reason}: {message.body[:SHOWN_BYTES]!r}"


async def list_dead(url: str, limit: int) -> list[str]:
    """Return a line for each message, and leave them in the queue."""
    async with open_channel(url) as channel:
        found = await get_dead(channel, limit)
        lines = [describe(message) for message in found]
        for message in found:
            await message.nack(requeue=True)
    return lines


async def requeue(url: str, limit: int) -> list[str]:
    """Send messages back to their queues. Return a line for each.

    A message whose queue is unknown or gone stays.
    """
    lines = []
    async with open_channel(url) as channel:
        for message in await get_dead(channel, limit):
            queue = message.headers.get(QUEUE_HEADER)
            if not isinstance(queue, str):
                await message.nack(requeue=True)
            elif await send_back(channel, message, queue):
                lines.append(f"back to {queue}: {message.body[:SHOWN_BYTES]!r}")
    return lines


async def send_back(channel: AbstractChannel, message: AbstractIncomingMessage, queue: str) -> bool:
    """Publish a message to its queue and ack it. Return False, and requeue it, if the queue is gone."""
    headers = {name: value for name, value in message.headers.items() if name not in (QUEUE_HEADER, REASON_HEADER)}
    persistent = aio_pika.DeliveryMode.PERSISTENT
    copy = aio_pika.Message(message.body, headers=headers, message_id=message.message_id, delivery_mode=persistent)
    try:
        await channel.default_exchange.publish(copy, queue, timeout=CALL_SECONDS)
    except aio_pika.exceptions.PublishError:
        await message.nack(requeue=True)
        return False
    await message.ack()
    return True


def main() -> int:
    """Run the command. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m common.rabbitmq.dead_messages", description=__doc__)
    parser.add_argument("command", choices=["list", "requeue"])
    parser.add_argument("--limit", type=int, default=100, help="the most messages to list or requeue (default: 100)")
    arguments = parser.parse_args()
    action = list_dead if arguments.command == "list" else requeue
    try:
        lines = asyncio.run(action(load(DeadMessageSettings).amqp_url, arguments.limit))
    except SettingsError as error:
        print(f"dead_messages: {error}", file=sys.stderr)
        return error.exit_code
    except CONNECTION_ERRORS as error:
        print(f"dead_messages: {type(error).__name__}: {error}", file=sys.stderr)
        return CharoniaError.exit_code
    print("\n".join(lines) or "none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
