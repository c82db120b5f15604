"""What became of an attempt, written down: the job's end with its event, or its way back to the queue."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Literal, TypeVar, assert_never

import msgspec
from opentelemetry.trace import get_current_span

from common import ids, job_spans, tracing
from common.batching import Batcher
from common.bell import Bell
from common.database import statement
from common.errors import Unavailable
from common.job_view import JobRow, Links, identify, write_event
from common.jobs import Failure, Status
from common.logs import Log
from common.metrics import jobs_ended
from common.outbox import Outbox, ring_event
from services.dispatcher import metrics, retry
from services.dispatcher.inference import Answer
from services.dispatcher.store import ClaimedJob, End, Event, Requeue, Start, Step, Store

PAUSE_SECONDS = 0.5  # before another try while the database is away

T = TypeVar("T")
log = Log("job")


class Recorder:
    def __init__(self, store: Store, outbox: Outbox, bell: Bell, links: Links) -> None:
        self.store = store
        self.outbox = outbox
        self.bell = bell
        self.links = links
        self.announcing: set[asyncio.Task[bool]] = set()
        self.starts: Batcher[Start, bool] = Batcher(self.record_starts, name="starts")
        self.ends: Batcher[End, bool] = Batcher(self.end_jobs, name="ends", weigh=lambda end: len(end.outputs or b""))
        self.requeues: Batcher[Requeue, bool] = Batcher(self.requeue_jobs, name="requeues")
        self.steps: Batcher[list[Step], bool] = Batcher(
            self.add_steps, name="steps", weigh=lambda steps: sum(len(step.outputs) for step in steps)
        )

    async def end_jobs(self, ends: list[End]) -> list[bool]:
        """What follows from an end belongs to the statement that made it, not to the task that waits for it."""
        told = await self.store.end_jobs(ends)
        ended = [end for end in ends if end.event.id in told]
        self.bell.ring(end.id for end in ended)
        self.outbox.announce([end.event.message for end in ended])
        for end in ended:
            jobs_ended.labels(end.model, end.status).inc()
            if end.was == "running":
                metrics.attempts.labels(end.model, end.status).inc()
        return [end.event.id in told for end in ends]

    async def requeue_jobs(self, requeues: list[Requeue]) -> list[bool]:
        queued = await self.store.requeue_jobs(requeues)
        self.bell.ring(queued)
        return [back.id in queued for back in requeues]

    async def add_steps(self, steps: list[list[Step]]) -> list[bool]:
        together = [step for each in steps for step in each]
        await self.store.add_steps(together)
        self.bell.ring(step.job_id for step in together)
        return [True] * len(steps)

    async def record_starts(self, starts: list[Start]) -> list[bool]:
        await self.store.record_events(starts)
        self.outbox.announce([start.event.message for start in starts])
        return [True] * len(starts)

    def announce_start(self, job: ClaimedJob, traceparent: str) -> None:
        """Beside the inference, which does not wait. Lost only with this process: then another attempt begins."""
        at = job.row.started_at
        assert at is not None, "a claimed job has started"
        start = Start(job.row, at, self.make_event(job.row, "job.started", at, None, traceparent))
        task = asyncio.create_task(persist(self.starts.submit, start))
        self.announcing.add(task)
        task.add_done_callback(self.announcing.discard)

    async def drain(self, seconds: float) -> None:
        """Waits for announcements under way."""
        if self.announcing:
            await asyncio.wait(self.announcing, timeout=seconds)

    async def succeed(self, job: ClaimedJob, answer: Answer, at: datetime, inference_ms: float, trace: str) -> None:
        row = msgspec.structs.replace(
            job.row,
            status=Status.SUCCEEDED,
            version=answer.version,
            finished_at=at,
            inference_ms=inference_ms,
            error_code=None,
        )
        await self.end(job, "running", row, trace, answer.outputs)

    async def settle(self, job: ClaimedJob, outcome: retry.Outcome, at: datetime, trace: str) -> None:
        """Records a failed attempt; what follows from it is retry.py's to say."""
        row, failure = job.row, outcome.failure
        policy = retry.Policy(
            row.attempt, row.max_attempts, job.interruptions, job.initial_delay, job.max_delay, job.fallback_model
        )
        requeue = partial(Requeue, id=row.id, claim=job.claim, failure=failure)
        match retry.decide(policy, outcome, random.random()):  # noqa: S311 -- jitter, not a secret
            case retry.GiveBack(delay):
                interrupted, refused = isinstance(outcome, retry.Interrupted), isinstance(outcome, retry.Refused)
                back = requeue(delay=delay, given_back=True, interrupted=interrupted, refused=refused)
            case retry.Again(delay):
                back = requeue(delay=delay)
            case retry.FallBack(model):
                back = requeue(fallback=model)
            case retry.Fail():
                await self.end(job, "running", fail(row, Status.FAILED, failure, at), trace)
                return
            case never:
                assert_never(never)
        if not await self.requeue(job, back):
            await self.cancel(job, at, trace)

    async def cancel(self, job: ClaimedJob, at: datetime, trace: str) -> None:
        """Ends a running job whose client asked for it; nothing where it is no longer running."""
        row = msgspec.structs.replace(job.row, status=Status.CANCELED, finished_at=at, error_code=None)
        await self.end(job, "running", row, trace)

    async def expire(self, job: ClaimedJob, at: datetime) -> None:
        failure = Failure("expired", "the job was not started within its expires_in", False)
        with job_spans.since("queued", job.row, job_spans.due(job.row)) as trace:
            await self.end(job, "queued", fail(job.row, Status.EXPIRED, failure, at), trace)

    async def strand(self, job: ClaimedJob, at: datetime) -> None:
        """Fails a queued job that nothing can run any more."""
        failure = Failure("model_unavailable", f"no Triton server has had model '{job.row.model}' for too long", True)
        with job_spans.since("queued", job.row, job_spans.due(job.row)) as trace:
            await self.end(job, "queued", fail(job.row, Status.FAILED, failure, at), trace)

    async def end(
        self,
        job: ClaimedJob,
        was: Literal["running", "queued"],
        row: JobRow,
        trace: str,
        outputs: bytes | None = None,
    ) -> None:
        assert row.finished_at is not None, "an ended job has an end"
        event = self.make_event(row, f"job.{row.status}", row.finished_at, outputs, trace)
        failure = None
        if row.error_code is not None:
            failure = Failure(row.error_code, row.error_message or "", bool(row.error_retryable))
        end = End(
            id=row.id,
            claim=job.claim,
            was=was,
            model=row.model,
            status=row.status,
            finished_at=row.finished_at,
            event=event,
            version=row.version,
            failure=failure,
            inference_ms=row.inference_ms,
            outputs=outputs,
        )
        outcome: dict[str, object] = {**identify(row), "attempt": row.attempt}
        outcome |= {"error": row.error_code} if row.error_code else {}
        if await persist(self.save, end):
            job_spans.note_outcome(row.status)
            if failure is not None:
                tracing.fail(get_current_span(), failure.code)
            log.info(f"job.{row.status}", **outcome)
        else:
            job_spans.note_outcome("too_late")
            metrics.stale_results.inc()
            log.warning("job.result_too_late", **outcome)

    async def save(self, end: End) -> bool:
        with statement("UPDATE", "jobs"):
            return await self.ends.submit(end)

    async def put_back(self, back: Requeue) -> bool:
        with statement("UPDATE", "jobs"):
            return await self.requeues.submit(back)

    async def requeue(self, job: ClaimedJob, back: Requeue) -> bool:
        """Whether it is queued again: not where another claim has it, nor where it is being canceled."""
        done = await persist(self.put_back, back)
        if done:
            metrics.attempts.labels(job.row.model, "returned" if back.given_back else "failed").inc()
        tracing.fail(get_current_span(), back.failure.code)
        job_spans.note_outcome(name_return(back) if done else "too_late")
        log.info(
            "job.requeued" if done else "job.requeue_too_late",
            **identify(job.row),
            attempt=job.row.attempt,
            error=back.failure.code,
            delay=round(back.delay, 3),
            given_back=back.given_back,
            fallback=back.fallback,
        )
        return done

    def make_event(self, row: JobRow, kind: str, at: datetime, outputs: bytes | None, trace: str) -> Event:
        event_id = ids.new()
        body = write_event(row, self.links, kind, at, outputs)
        return Event(event_id, kind, body, ring_event(event_id, kind, trace))


def name_return(back: Requeue) -> str:
    if back.given_back:
        return "given_back"
    return "retried" if back.fallback is None else "fell_back"


def fail(row: JobRow, status: Status, failure: Failure, at: datetime) -> JobRow:
    return msgspec.structs.replace(
        row,
        status=status,
        finished_at=at,
        error_code=failure.code,
        error_message=failure.message,
        error_retryable=failure.retryable,
    )


async def persist(submit: Callable[[T], Awaitable[bool]], item: T) -> bool:
    """Tries until the database takes it: a result must not be lost to a restart of the database.

    Bounded by the slots: two results for each at most; ends with the task that runs it.
    """
    while True:
        try:
            return await submit(item)
        except Unavailable as error:
            log.warning("job.result_waits", error=error)
            await asyncio.sleep(PAUSE_SECONDS)
