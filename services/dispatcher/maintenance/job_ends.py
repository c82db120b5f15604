"""Ends jobs that a sweep has found."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from common.jobs.job import AnyJob

END_SECONDS = 1.0  # for the ends of a batch; those that take longer delay no sweep


class JobEnds:
    """The ends under way. One that the database does not take soon goes on beside the next sweeps."""

    def __init__(self) -> None:
        self.running: dict[UUID, asyncio.Task[None]] = {}

    def leave_out(self, jobs: Iterable[tuple[AnyJob, datetime]]) -> list[tuple[AnyJob, datetime]]:
        """Return the jobs whose end is not under way."""
        return [(job, now) for job, now in jobs if job.id not in self.running]

    async def end_each(
        self, jobs: list[tuple[AnyJob, datetime]], end: Callable[[AnyJob, datetime], Coroutine[Any, Any, None]]
    ) -> None:
        """End jobs with `end`. Raises what the first end that is over has raised."""
        started = {job.id: asyncio.create_task(end(job, now)) for job, now in jobs}
        self.running |= started
        if started:
            await asyncio.wait(started.values(), timeout=END_SECONDS)
        done = [self.running.pop(job) for job, task in [*self.running.items()] if task.done()]
        await asyncio.gather(*done)

    def cancel(self) -> None:
        for task in self.running.values():
            task.cancel()
