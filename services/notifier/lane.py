"""Lets what writes endpoints' rows here follow one another, of its own accord."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PATIENCE_SECONDS = 0.1  # many times what a statement takes


class Lane:
    """One at a time, since a fan-out that meets a row which is being written has to be done again, under locks.

    A courtesy: the rows are locked anyhow. So who has waited for PATIENCE_SECONDS goes on beside the one before, which
    may wait for a stranger's lock, as long as a statement may take.
    """

    def __init__(self) -> None:
        self.free = asyncio.Lock()

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.free.acquire()
        except TimeoutError:
            yield
            return
        try:
            yield
        finally:
            self.free.release()
