"""Looks through the messages that nobody could handle: `python -m common.dead_messages list | requeue`.

`requeue` sends each back to the queue that it came from: for messages of a newer version, after an upgrade.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aio_pika
import msgspec
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from common import topology
from common.broker import QUEUE_HEADER, REASON_HEADER
from common.errors import SettingsError
from common.link import CALL_SECONDS, TROUBLE
from common.settings import AmqpUrl, load

SHOWN_BYTES = 200  # of a body


class DeadSettings(msgspec.Struct, frozen=True):
    amqp_url: AmqpUrl


@asynccontextmanager
async def open_channel(url: str) -> AsyncIterator[AbstractChannel]:
    connection = await aio_pika.connect(url, timeout=CALL_SECONDS)
    async with connection:
        yield await connection.channel(on_return_raises=True)


async def take(channel: AbstractChannel, limit: int) -> list[AbstractIncomingMessage]:
    """At most that many, held until they are settled."""
    queue = await channel.get_queue(topology.DEAD, ensure=False)
    found: list[AbstractIncomingMessage] = []
    while len(found) < limit and (message := await queue.get(fail=False, timeout=CALL_SECONDS)) is not None:
        found.append(message)
    return found


def describe(message: AbstractIncomingMessage) -> str:
    queue = str(message.headers.get(QUEUE_HEADER) or "unknown queue")
    reason = str(message.headers.get(REASON_HEADER) or "rejected by the broker")
    return f"{queue}: {reason}: {message.body[:SHOWN_BYTES]!r}"


async def list_dead(url: str, limit: int) -> list[str]:
    """A line for each; they stay where they are."""
    async with open_channel(url) as channel:
        found = await take(channel, limit)
        lines = [describe(message) for message in found]
        for message in found:
            await message.nack(requeue=True)
    return lines


async def requeue(url: str, limit: int) -> list[str]:
    """A line for each that went back; one whose queue is not known, or is gone, stays."""
    lines = []
    async with open_channel(url) as channel:
        for message in await take(channel, limit):
            queue = message.headers.get(QUEUE_HEADER)
            if not isinstance(queue, str):
                await message.nack(requeue=True)
                continue
            headers = {k: v for k, v in message.headers.items() if k not in (QUEUE_HEADER, REASON_HEADER)}
            copy = aio_pika.Message(
                message.body,
                headers=headers,
                message_id=message.message_id,
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            )
            try:
                await channel.default_exchange.publish(copy, queue, timeout=CALL_SECONDS)
            except aio_pika.exceptions.PublishError:
                await message.nack(requeue=True)
            else:
                await message.ack()
                lines.append(f"back to {queue}: {message.body[:SHOWN_BYTES]!r}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m common.dead_messages", description=__doc__)
    parser.add_argument("command", choices=["list", "requeue"])
    parser.add_argument("--limit", type=int, default=100, help="at most so many messages (default 100)")
    arguments = parser.parse_args()
    action = list_dead if arguments.command == "list" else requeue
    try:
        lines = asyncio.run(action(load(DeadSettings).amqp_url, arguments.limit))
    except SettingsError as error:
        print(f"dead_messages: {error}", file=sys.stderr)
        return 2
    except TROUBLE as error:
        print(f"dead_messages: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines) or "none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
