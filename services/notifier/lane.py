"""Lets what fans out, claims and records in this process write endpoints' rows one after another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PATIENCE_SECONDS = 0.1  # many times what a statement takes with a database nearby


class Lane:
    """One at a time, since a fan-out that meets a row which is being written has to be done again, under locks.

    It is for speed only: the rows' own locks keep things right. So everybody passes one that has been inside for
    PATIENCE_SECONDS: it may wait for a row that somebody else holds, for as long as a statement may take.
    """

    def __init__(self) -> None:
        self.free = asyncio.Lock()
        self.since = 0.0  # when the one inside came, by the loop's clock

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        inside = await self.wait()
        try:
            yield
        finally:
            if inside:
                self.free.release()

    async def wait(self) -> bool:
        """Whether the lane is the caller's, to be released; if not, it goes beside."""
        clock = asyncio.get_running_loop().time
        since = self.since if self.free.locked() else clock()
        try:
            async with asyncio.timeout_at(since + PATIENCE_SECONDS):
                await self.free.acquire()
        except TimeoutError:
            return False
        self.since = clock()
        return True
