"""A job that this dispatcher runs now."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from opentelemetry.trace import INVALID_SPAN, Span

from common.jobs.job import ClaimKey, JobToRun
from common.telemetry.logs import Log
from common.views.job import job_log_fields
from services.dispatcher.attempts.slot import Slot
from services.dispatcher.models.served_model import ServedModel

T = TypeVar("T")

log = Log("attempts")


@dataclass
class RunningJob:
    """A claimed job, what it holds, and the task that runs it to its end. Times are those of the monotonic clock."""

    job: JobToRun
    model: ServedModel
    slot: Slot
    held: ExitStack = field(default_factory=ExitStack)  # closed when the task has ended
    task: asyncio.Task[None] = field(init=False)
    claimed_at: float = field(default_factory=time.monotonic)
    sent_at: float | None = None  # when its inference was sent; from then on it may be what stops Triton
    recording: bool = False  # the inference is over; its result is being recorded
    canceling: bool = False
    span: Span = INVALID_SPAN
    _step: asyncio.Task[Any] | None = None  # the inference, then the save

    def __post_init__(self) -> None:
        self.held.callback(self.slot.close)

    @property
    def key(self) -> ClaimKey:
        return self.job.key

    @property
    def began(self) -> float:
        """When its inference was sent, or else when it was claimed."""
        return self.claimed_at if self.sent_at is None else self.sent_at

    def tell_time(self) -> datetime:
        """Return the time by the database's clock."""
        return self.job.time_after(time.monotonic() - self.claimed_at)

    def start(self, run: Coroutine[Any, Any, None]) -> None:
        self.task = asyncio.create_task(run)
        self.task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self.held.close()
        if not task.cancelled() and (error := task.exception()) is not None:
            # The lease lapses now, and a sweeper decides what happens to the job.
            log.error("job.task_failed", **job_log_fields(self.job), error=repr(error))

    async def step(self, doing: Coroutine[Any, Any, T]) -> T:
        """Infer, or save, in a task of its own, so that a cancel of the job ends only that."""
        if self.canceling:
            doing.close()
            raise asyncio.CancelledError
        self._step = step = asyncio.create_task(doing)
        try:
            return await step
        finally:
            self.recording = True  # the first step is the inference
            step.cancel()  # in case this task itself is cancelled

    def cancel(self) -> None:
        """Cancel the inference, or the save of its result, because a client asked for it."""
        self.canceling = True
        self.span.add_event("canceling")
        if self._step is not None:
            self._step.cancel()


RunningJobs = dict[ClaimKey, RunningJob]
