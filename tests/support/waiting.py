"""The only way these tests wait: for a condition, with a deadline."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

POLL_SECONDS = 0.03  # between two polls at first
MAX_POLL_SECONDS = 0.6
SHARE = 0.1  # of the wait so far; each poll takes CPU from the tests beside this one

T = TypeVar("T")


async def eventually(poll: Callable[[], Awaitable[T | None]], description: str, within: float = 45.0) -> T:
    """Return what `poll` returns once it is true. Fail after `within` seconds."""
    clock = asyncio.get_running_loop().time
    began = clock()
    while True:
        if found := await poll():
            return found
        waited = clock() - began
        assert waited < within, f"not within {within:g} s: {description}"
        await asyncio.sleep(min(MAX_POLL_SECONDS, max(POLL_SECONDS, waited * SHARE)))
