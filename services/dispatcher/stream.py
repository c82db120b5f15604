"""The responses of one attempt at a streaming model, written down as they come for whoever watches."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from services.dispatcher.record import persist
from services.dispatcher.store import ClaimedJob, Step

WAITING = 100  # responses, of which each may be as large as a message of Triton's
TOGETHER = 20


class Stream:
    """Inside, `add` takes responses; at the end of the block they are written, unless the attempt was cancelled.

    In order, though the database may be away: whoever has seen a number asks for those above it only.
    """

    def __init__(self, job: ClaimedJob, write: Callable[[list[Step]], Awaitable[bool]]) -> None:
        self.job = job
        self.write = write
        self.count = 0
        self.waiting: asyncio.Queue[Step] = asyncio.Queue(WAITING)
        self.writing: asyncio.Task[None] | None = None

    async def add(self, outputs: bytes) -> None:
        """Waits only where the database is that far behind."""
        self.count += 1
        await self.waiting.put(Step(self.job.row.id, self.job.claim, self.count, outputs))

    async def run(self) -> None:
        while True:
            steps = [await self.waiting.get()]
            while len(steps) < TOGETHER and not self.waiting.empty():
                steps.append(self.waiting.get_nowait())
            await persist(self.write, steps)
            for _ in steps:
                self.waiting.task_done()

    async def __aenter__(self) -> Self:
        self.writing = asyncio.create_task(self.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self.writing is not None, "it was entered"
        try:
            if not isinstance(error, asyncio.CancelledError):
                await self.waiting.join()
        finally:
            self.writing.cancel()
