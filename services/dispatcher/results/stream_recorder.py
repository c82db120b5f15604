"""Records the responses of one attempt on a streaming model as they arrive."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from services.dispatcher.claims.claimed_job import ClaimedJob
from services.dispatcher.results.store import Step

MAX_WAITING = 100  # responses, each as large as a message of Triton may be
BATCH = 20


class StreamRecorder:
    """A context in which `add` takes responses. Its exit waits until they are written, unless it is cancelled.

    Responses are written in order, also after an outage. A reader asks only for higher numbers than it has seen.
    """

    def __init__(self, job: ClaimedJob, write: Callable[[list[Step]], Awaitable[bool]]) -> None:
        self._job = job
        self._write = write
        self._count = 0
        self._waiting: asyncio.Queue[Step] = asyncio.Queue(MAX_WAITING)
        self._writing: asyncio.Task[None] | None = None

    async def add(self, outputs: bytes) -> None:
        """Take a response. Waits only if the database is MAX_WAITING responses behind."""
        self._count += 1
        await self._waiting.put(Step(self._job.row.id, self._job.claim, self._count, outputs))

    async def _run(self) -> None:
        while True:
            steps = [await self._waiting.get()]
            while len(steps) < BATCH and not self._waiting.empty():
                steps.append(self._waiting.get_nowait())
            await self._write(steps)
            for _ in steps:
                self._waiting.task_done()

    async def __aenter__(self) -> Self:
        self._writing = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._writing is not None, "the context was entered"
        try:
            if not isinstance(error, asyncio.CancelledError):
                await self._waiting.join()
        finally:
            self._writing.cancel()
