"""The only way these tests wait: for a condition, with a deadline."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

POLL_SECONDS = 0.05

T = TypeVar("T")


async def eventually(poll: Callable[[], Awaitable[T | None]], description: str, within: float = 45.0) -> T:
    """Return what `poll` returns once it is true. Fail after `within` seconds."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + within
    while True:
        if found := await poll():
            return found
        assert clock() < deadline, f"not within {within:g} s: {description}"
        await asyncio.sleep(POLL_SECONDS)
