"""Ends tasks of asyncio."""

import asyncio
from collections.abc import Collection
from typing import Any

MOST_CANCELS, CANCEL_SECONDS = 20, 0.5  # and the time between two


async def end_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks until all have ended, but not without a bound. Raises none of their errors."""
    pending = set(tasks)
    for _ in range(MOST_CANCELS):  # before Python 3.12, wait_for swallows a cancel if its work ends just then
        for each in pending:
            each.cancel()
        if pending:
            _, pending = await asyncio.wait(pending, timeout=CANCEL_SECONDS)
    await asyncio.gather(*(set(tasks) - pending), return_exceptions=True)
