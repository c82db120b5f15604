"""The one way to wait in these tests: for a condition, with a deadline."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

POLL = 0.05

T = TypeVar("T")


async def eventually(look: Callable[[], Awaitable[T | None]], what: str, within: float = 20.0) -> T:
    """What `look` finds, once it finds something; fails after `within` seconds."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + within
    while True:
        if found := await look():
            return found
        assert clock() < deadline, f"not within {within:g} s: {what}"
        await asyncio.sleep(POLL)
