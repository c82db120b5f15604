"""Writes results in batches, and retries while the database is away."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from common.errors import Unavailable
from common.postgres.batcher import Batcher
from common.postgres.database import statement_span
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.wake_ups import WakeUpPublisher, event_wake_up
from common.telemetry.logs import Log
from common.telemetry.metrics import jobs_ended
from services.dispatcher import metrics
from services.dispatcher.results.store import AttemptStart, JobEnd, NewEvent, Requeue, ResultStore, Step

RETRY_SECONDS = 0.5  # between two tries while the database is away

T = TypeVar("T")
log = Log("job")


class ResultWriter:
    """Writes results. The follow-ups of a write (wake-ups, metrics) also happen if its caller no longer waits."""

    def __init__(self, store: ResultStore, wake_ups: WakeUpPublisher, changes: ChangePublisher) -> None:
        self._store = store
        self._wake_ups = wake_ups
        self._changes = changes
        self._announcing: set[asyncio.Task[bool]] = set()
        self._starts: Batcher[AttemptStart, bool] = Batcher(self._record_starts, name="starts")
        self._ends: Batcher[JobEnd, bool] = Batcher(
            self._end_jobs, name="ends", size_of=lambda end: len(end.outputs or b"")
        )
        self._requeues: Batcher[Requeue, bool] = Batcher(self._requeue_jobs, name="requeues")
        self._steps: Batcher[list[Step], bool] = Batcher(
            self._add_steps, name="steps", size_of=lambda steps: sum(len(step.outputs) for step in steps)
        )

    def announce_start(self, start: AttemptStart) -> None:
        """Record a start without waiting. If this process dies first, another attempt begins and is announced."""
        task = asyncio.create_task(save_with_retry(self._starts.submit, start))
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)

    async def drain(self, seconds: float) -> None:
        """Wait for announcements that are not recorded yet."""
        if self._announcing:
            await asyncio.wait(self._announcing, timeout=seconds)

    async def end(self, end: JobEnd) -> bool:
        """Return whether the job ended, which it does only under its claim."""
        return await save_with_retry(self._submit_end, end)

    async def requeue(self, requeue: Requeue) -> bool:
        """Return whether the job was queued again: not if its claim is lost, or a cancel was requested."""
        return await save_with_retry(self._submit_requeue, requeue)

    async def add_steps(self, steps: list[Step]) -> bool:
        return await save_with_retry(self._steps.submit, steps)

    async def _submit_end(self, end: JobEnd) -> bool:
        with statement_span("UPDATE", "jobs"):
            return await self._ends.submit(end)

    async def _submit_requeue(self, requeue: Requeue) -> bool:
        with statement_span("UPDATE", "jobs"):
            return await self._requeues.submit(requeue)

    async def _record_starts(self, starts: list[AttemptStart]) -> list[bool]:
        await self._store.record_events(starts)
        self._announce(start.event for start in starts)
        return [True] * len(starts)

    async def _end_jobs(self, ends: list[JobEnd]) -> list[bool]:
        recorded = await self._store.end_jobs(ends)
        ended = [end for end in ends if end.event.id in recorded]
        self._changes.notify(end.id for end in ended)
        self._announce(end.event for end in ended)
        for end in ended:
            jobs_ended.labels(end.model, end.status).inc()
            if end.was == "running":
                metrics.attempts.labels(end.model, end.status).inc()
        return [end.event.id in recorded for end in ends]

    def _announce(self, events: Iterable[NewEvent]) -> None:
        self._wake_ups.announce(event_wake_up(event.id, event.type, event.traceparent) for event in events)

    async def _requeue_jobs(self, requeues: list[Requeue]) -> list[bool]:
        queued = await self._store.requeue_jobs(requeues)
        self._changes.notify(queued)
        return [requeue.id in queued for requeue in requeues]

    async def _add_steps(self, steps: list[list[Step]]) -> list[bool]:
        together = [step for each in steps for step in each]
        await self._store.add_steps(together)
        self._changes.notify(step.job_id for step in together)
        return [True] * len(steps)


async def save_with_retry(submit: Callable[[T], Awaitable[bool]], item: T) -> bool:
    """Try until the database accepts an item, so that an outage loses no result. A cancel ends the tries.

    The slots limit how many results wait: at most two for each slot.
    """
    while True:
        try:
            return await submit(item)
        except Unavailable as error:
            log.warning("job.result_delayed", error=error)
            await asyncio.sleep(RETRY_SECONDS)
