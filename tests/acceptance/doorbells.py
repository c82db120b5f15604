"""The messages of a stack, as its database knows them."""

import asyncio

from deploy.local.postgres import DATABASE
from deploy.local.stack import Stack
from tests.acceptance.waiting import eventually


async def wait_for_doorbells(stack: Stack) -> None:
    """Returns once the broker has all messages."""

    async def look() -> bool:
        return await asyncio.to_thread(stack.postgres.query, "SELECT count(*) FROM outbox", DATABASE) == "0"

    await eventually(look, "the outbox is empty")
