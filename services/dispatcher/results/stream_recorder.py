"""Records the responses of one attempt on a streaming model as they arrive."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from common.jobs.job import JobToRun
from common.telemetry.logs import Log
from common.views.job import job_log_fields
from services.dispatcher.results.store import Step
from services.dispatcher.triton.tensors import Rendered

log = Log("job")

MAX_WAITING = 100  # responses, each as large as a message of Triton may be
BATCH = 20
STRIDE = 2  # between the numbers of two responses: a cancel request may come between them


class StreamRecorder:
    """A context in which `add` takes responses. Its exit waits until they are written, unless it is cancelled.

    Responses are written in order, also after an outage. A reader asks only for higher numbers than it has seen. When
    they cannot be written, `add` and the exit raise the error of the write.
    """

    def __init__(self, job: JobToRun, write: Callable[[list[Step]], Awaitable[bool]]) -> None:
        self._job = job
        self._write = write
        self._number = 0
        self._waiting: asyncio.Queue[Step] = asyncio.Queue(MAX_WAITING)
        self._writing: asyncio.Task[None] | None = None

    async def add(self, response: Rendered) -> None:
        """Take a response. Waits only if the database or the object store is MAX_WAITING responses behind."""
        self._number += STRIDE
        step = Step(self._job.id, self._job.claim, self._number, response.json, response.files)
        if self._waiting.full() or self._writer.done():
            await self._while_writing(self._waiting.put(step))
        else:
            self._waiting.put_nowait(step)

    @property
    def _writer(self) -> "asyncio.Task[None]":
        assert self._writing is not None, "the context was entered"
        return self._writing

    async def _while_writing(self, wait: Coroutine[Any, Any, None]) -> None:
        """Wait for the writer's progress. Raises what ended the writer."""
        waiting = asyncio.create_task(wait)
        try:
            await asyncio.wait({waiting, self._writer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._writer.done():
            self._writer.result()

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
        try:
            if not isinstance(error, asyncio.CancelledError):
                await self._while_writing(self._waiting.join())
        except Exception as lost:
            if error is None:
                raise
            # The error of the attempt decides what happens to the job.
            log.warning("job.responses_not_recorded", **job_log_fields(self._job), error=repr(lost))
        finally:
            self._writer.cancel()
