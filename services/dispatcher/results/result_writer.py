"""Writes results in batches, and retries while the database is away.

What may be slow to write never shares a statement: items with much JSON, and items of a batch that failed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TypeVar
from uuid import UUID

from common.errors import StatementTimeout, Unavailable
from common.jobs.end import JobEnd, end_jobs
from common.jobs.new_event import NewEvent
from common.jobs.requeue import Requeue, requeue_jobs
from common.postgres.batcher import Batcher
from common.postgres.database import statement_span
from common.postgres.statements import Executor
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.wake_ups import WakeUpPublisher, event_wake_up
from common.telemetry.logs import Log
from common.telemetry.metrics import jobs_ended
from common.views.job import job_log_fields
from services.dispatcher import metrics
from services.dispatcher.results.run_progress import RunProgress
from services.dispatcher.results.step_ends import StepEnds, measure
from services.dispatcher.results.store import AttemptStart, NotStored, ResultStore, Step
from services.dispatcher.results.unsettled_keys import UnsettledKeys

RETRY_SECONDS = 0.5  # between two tries while the database is away
MAX_TIMEOUTS = 3  # of one item alone, while the database answers; then it cannot be stored
LARGE = 1024 * 1024  # bytes; a larger item takes 50 ms a megabyte
SINGLE_STATEMENTS = 4  # at a time, of items that share none

T = TypeVar("T")
log = Log("job")


class ResultWriter:
    """Writes results. The follow-ups of a batch (wake-ups, metrics) also happen if its caller no longer waits."""

    def __init__(
        self,
        database: Executor,
        store: ResultStore,
        runs: RunProgress,
        wake_ups: WakeUpPublisher,
        changes: ChangePublisher,
        unsettled: UnsettledKeys | None = None,
    ) -> None:
        """`unsettled` gets the keys of jobs that have ended, or wait again: others may wait for them."""
        self._database = database
        self._unsettled = unsettled or UnsettledKeys()
        self._runs = runs
        self._store = store
        self._wake_ups = wake_ups
        self._changes = changes
        self._announcing: dict[tuple[UUID, int], asyncio.Task[None]] = {}  # by claim
        self._single = asyncio.Semaphore(SINGLE_STATEMENTS)
        self._starts: Batcher[AttemptStart, bool] = Batcher(self._record_starts, name="starts")
        self._ends: Batcher[JobEnd, bool] = Batcher(
            self._end_jobs, name="ends", size_of=lambda end: len(end.outputs or b"")
        )
        self._step_ends = StepEnds(self._end_light, self._end_run)
        self._requeues: Batcher[Requeue, bool] = Batcher(self._requeue_jobs, name="requeues")
        self._steps: Batcher[list[Step], bool] = Batcher(self._add_steps, name="steps", size_of=measure_steps)

    def announce_start(self, start: AttemptStart) -> None:
        """Record a start without waiting. If this process dies first, another attempt begins and is announced."""
        claim = start.job.key
        self._announcing[claim] = asyncio.create_task(self._announce_start(start))
        self._announcing[claim].add_done_callback(lambda _: self._announcing.pop(claim))

    async def _announce_start(self, start: AttemptStart) -> None:
        try:
            await self._write(self._starts.submit, self._record_starts, start)
        except NotStored as error:
            log.warning("job.start_not_recorded", **job_log_fields(start.job), error=error)

    async def drain(self, seconds: float) -> None:
        """Wait for announcements that are not recorded yet."""
        if self._announcing:
            await asyncio.wait(self._announcing.values(), timeout=seconds)

    async def _await_start(self, job_id: UUID, claim: int) -> None:
        """Wait until the attempt's start is recorded: the events of a job are recorded in their order."""
        if start := self._announcing.get((job_id, claim)):
            await asyncio.wait([start])

    async def end(self, end: JobEnd) -> bool:
        """Return whether the job ended, which it does only under its claim and with its files. Raises NotStored."""
        await self._await_start(end.id, end.claim)
        with statement_span("UPDATE", "jobs"):
            if end.is_step:
                alone = self._step_ends.save_alone
                return await save_with_retry(self._step_ends.submit if measure(end) <= LARGE else alone, alone, end)
            return await self._write(self._ends.submit, self._end_jobs, end, size=len(end.outputs or b""))

    async def requeue(self, requeue: Requeue) -> bool:
        """Return whether the job was queued again: not if its claim is lost, or a cancel was requested."""
        await self._await_start(requeue.id, requeue.claim)
        with statement_span("UPDATE", "jobs"):
            return await self._write(self._requeues.submit, self._requeue_jobs, requeue)

    async def add_steps(self, steps: list[Step]) -> bool:
        """Add responses of one job. Raises NotStored."""
        return await self._write(self._steps.submit, self._add_steps, steps, size=measure_steps(steps))

    async def _write(
        self,
        submit: Callable[[T], Awaitable[bool]],
        flush: Callable[[list[T]], Awaitable[list[bool]]],
        item: T,
        *,
        size: int = 0,
    ) -> bool:
        """Write an item in a batch, or alone if it is large, or after its batch failed. `size` is in bytes."""
        alone = partial(self._save_one, flush)
        return await save_with_retry(submit if size <= LARGE else alone, alone, item)

    async def _save_one(self, flush: Callable[[list[T]], Awaitable[list[bool]]], item: T) -> bool:
        async with self._single:
            (done,) = await flush([item])
        return done

    async def _record_starts(self, starts: list[AttemptStart]) -> list[bool]:
        await self._store.record_starts(starts)
        self._announce(start.event for start in starts)
        return [True] * len(starts)

    async def _end_jobs(self, ends: list[JobEnd]) -> list[bool]:
        return self._note_ends(ends, await end_jobs(self._database, ends))

    async def _end_run(self, ends: list[JobEnd]) -> list[bool]:
        recorded, follow_ups = await self._runs.end_steps(ends)
        self._wake_ups.announce(follow_ups)
        return self._note_ends(ends, recorded)

    async def _end_light(self, ends: list[JobEnd]) -> list[bool | None]:
        """End the steps of light runs. The result of other ends is None."""
        taken, recorded, follow_ups = await self._runs.end_light(ends)
        self._wake_ups.announce(follow_ups)
        done = dict(zip((end.event.id for end in taken), self._note_ends(taken, recorded), strict=True))
        return [done.get(end.event.id) for end in ends]

    def _note_ends(self, ends: Sequence[JobEnd], recorded: Collection[UUID]) -> list[bool]:
        ended = [end for end in ends if end.event.id in recorded]
        self._changes.notify(end.id for end in ended)
        self._announce(end.event for end in ended if not end.is_step)
        self._unsettled.note(end.reuse for end in ended)
        for end in ended:
            jobs_ended.labels(end.model, end.status).inc()
            metrics.count_tokens(end.model, end.prompt_tokens, end.completion_tokens)
            if end.was == "running":
                metrics.attempts.labels(end.model, end.status).inc()
        return [end.event.id in recorded for end in ends]

    def _announce(self, events: Iterable[NewEvent]) -> None:
        self._wake_ups.announce(event_wake_up(event.id, event.type, event.traceparent) for event in events)

    async def _requeue_jobs(self, requeues: list[Requeue]) -> list[bool]:
        queued = await requeue_jobs(self._database, requeues)
        self._changes.notify(queued)
        self._unsettled.note(requeue.reuse for requeue in requeues if requeue.id in queued)
        return [requeue.id in queued for requeue in requeues]

    async def _add_steps(self, steps: list[list[Step]]) -> list[bool]:
        together = [step for each in steps for step in each]
        await self._store.add_steps(together)
        self._changes.notify(step.job_id for step in together)
        return [True] * len(steps)


def measure_steps(steps: Sequence[Step]) -> int:
    """Return the bytes of responses."""
    return sum(len(step.outputs) for step in steps)


async def save_with_retry(
    first: Callable[[T], Awaitable[bool]], again: Callable[[T], Awaitable[bool]], item: T
) -> bool:
    """Try until the database accepts an item, so that an outage loses no result. A cancel ends the tries.

    `again` writes it alone. Raises NotStored if that takes too long MAX_TIMEOUTS times although the database answers.

    The slots limit how many results wait: at most two for each slot.
    """
    save, timeouts = first, 0
    while True:
        try:
            return await save(item)
        except Unavailable as error:
            timeouts += save is again and isinstance(error, StatementTimeout)
            log.warning("job.result_delayed", error=error)
            if timeouts == MAX_TIMEOUTS:
                raise NotStored from error
        save = again
        await asyncio.sleep(RETRY_SECONDS)
