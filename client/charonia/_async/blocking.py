"""What differs between the halves: how to sleep, and how to do blocking work."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def sleep(seconds: float) -> None:
    import asyncio  # here, because programs without it need not load it

    await asyncio.sleep(seconds)


async def run_blocking(work: Callable[[], T]) -> T:
    """Return what `work` returns. It may read files, so it runs in a thread."""
    import asyncio

    return await asyncio.to_thread(work)
