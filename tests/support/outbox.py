"""The outbox of a stack's database."""

import asyncio

from deploy.local.postgres import DATABASE
from deploy.local.stack import Stack
from tests.support.waiting import eventually


async def wait_for_empty_outbox(stack: Stack) -> None:
    """Return once the broker has confirmed all messages."""

    async def poll() -> bool:
        return await asyncio.to_thread(stack.postgres.query, "SELECT count(*) FROM outbox", DATABASE) == "0"

    await eventually(poll, "the outbox is empty")
