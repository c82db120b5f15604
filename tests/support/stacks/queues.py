"""The queues of a stack's broker."""

import asyncio

from deploy.local.stack import Stack
from tests.support.waiting import eventually


async def wait_for_message(stack: Stack, queue: str) -> None:
    """Return once the queue holds a message. One that a consumer has not acknowledged counts."""

    async def poll() -> bool:
        arguments = ("list_queues", "--quiet", "--no-table-headers", "name", "messages")
        listed = await asyncio.to_thread(stack.rabbitmq.ctl, *arguments)
        counts = dict(line.split("\t") for line in listed.splitlines())
        return int(counts.get(queue, 0)) > 0

    await eventually(poll, f"{queue} holds a message")
