"""A message becomes a claim, and a claim an inference."""

import asyncio
import contextlib
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from opentelemetry.trace import INVALID_SPAN, Span, SpanKind

from common import ids, job_spans, topology, tracing
from common.bell import Bell
from common.errors import Reject, Retry, Unavailable
from common.job_view import JobRow, identify
from common.jobs import Failure, Priority
from common.logs import Log
from common.messages import CancelJob, JobQueued, JobsQueued, Listening, Message
from services.dispatcher import metrics
from services.dispatcher.catalogue import Runnable
from services.dispatcher.claims import Claims
from services.dispatcher.inference import Answer, Question, infer
from services.dispatcher.judgment import judge
from services.dispatcher.listeners import Listeners
from services.dispatcher.record import Recorder
from services.dispatcher.store import ClaimedJob, Requeue, Store
from services.dispatcher.stream import Stream
from services.dispatcher.triton import InferenceError, Triton

HOLD_SECONDS = 600.0  # a message waits so long here, far below RabbitMQ's acknowledgement timeout of 30 minutes
BEAT_SECONDS = 0.1
PAUSE_SECONDS = 1.0  # with the slot held, before a message goes back because the database is away

Key = tuple[UUID, int]  # a job and its claim
log = Log("run")


@dataclass
class Running:
    """A claimed job, the task that sees it to its end, and in it the one that asks Triton."""

    job: ClaimedJob
    task: asyncio.Task[None] | None = None
    inference: asyncio.Task[Answer] | None = None
    canceling: bool = False
    settling: bool = False  # Triton is done with it; its end is being written
    has_slot: bool = True
    span: Span = INVALID_SPAN

    def cancel(self) -> None:
        """The client wants no answer any more."""
        self.canceling = True
        self.span.add_event("canceling")
        if self.inference is not None:
            self.inference.cancel()


class Runner:
    def __init__(
        self,
        triton: Triton,
        store: Store,
        recorder: Recorder,
        bell: Bell,
        listeners: Listeners,
        *,
        worker: str,
        lease: float,
    ) -> None:
        self.triton = triton
        self.store = store
        self.recorder = recorder
        self.bell = bell
        self.listeners = listeners
        self.lease = lease
        self.running: dict[Key, Running] = {}
        self.beat = asyncio.Event()
        self.starting: set[asyncio.Task[None]] = set()
        self.claims = Claims(store, worker=worker, lease=lease)

    async def handle(self, model: Runnable, priority: Priority, message: Message, traceparent: str | None) -> None:
        """Waits for the model and a slot, claims a job and starts it, for each that the message rings for; then it has
        done its work."""
        rights = [self.use(model, priority, traceparent) for _ in range(count_rights(message))]
        for error in await asyncio.gather(*rights, return_exceptions=True):  # all at once: each waits from now on
            if error is not None:
                raise error

    async def use(self, model: Runnable, priority: Priority, traceparent: str | None) -> None:
        """One right to a job."""
        try:
            async with asyncio.timeout(HOLD_SECONDS):
                await model.acquire(priority)
        except TimeoutError:
            raise Retry("no slot became free in time") from None
        starting = asyncio.create_task(self.start(model, priority, traceparent))
        self.starting.add(starting)
        starting.add_done_callback(self.note_start)
        await asyncio.shield(starting)  # a claim under way is not torn off when the channel is lost

    def note_start(self, starting: asyncio.Task[None]) -> None:
        self.starting.discard(starting)
        if not starting.cancelled():
            starting.exception()  # nobody else may ask for it: whoever waited was cancelled

    async def start(self, model: Runnable, priority: Priority, traceparent: str | None) -> None:
        """Claims a job and runs it in a task of its own, or frees the slot where there is nothing to run."""
        job = None
        try:
            job = await self.claims.claim(model, priority)
        except Unavailable as error:
            await asyncio.sleep(PAUSE_SECONDS)
            raise Retry(str(error)) from error
        finally:
            if job is None:
                model.slots.release()
        if job is None:
            metrics.stale_messages.inc()
            return
        self.bell.ring([job.row.id])
        metrics.queue_seconds.labels(model.name, priority).observe(tell_wait(job))
        key = (job.row.id, job.claim)
        running = self.running[key] = Running(job)
        running.task = asyncio.create_task(self.run(model, running, traceparent))
        metrics.slots_used.labels(model.name).inc()
        running.task.add_done_callback(partial(self.forget, model, running))

    def forget(self, model: Runnable, running: Running, task: asyncio.Task[None]) -> None:
        job = running.job
        self.running.pop((job.row.id, job.claim), None)
        model.turns.end(job.row.tenant_id)
        if running.has_slot:
            model.slots.release()
            metrics.slots_used.labels(model.name).dec()
        else:
            model.slots.settling -= 1
        if not task.cancelled() and (error := task.exception()) is not None:
            # Its lease lapses now, and a sweeper decides what becomes of it.
            log.error("run.broke", **identify(job.row), error=repr(error))

    async def take_control(self, message: Message, _traceparent: str | None) -> None:
        match message:
            case CancelJob():
                self.beat.set()  # which says what is to be canceled: the message may be of a job's earlier life
            case Listening():
                self.listeners.hear()
            case _:
                raise Reject(f"a {type(message).__name__} is no control message")

    async def run(self, model: Runnable, running: Running, traceparent: str | None) -> None:
        """Runs a claimed job to its end, or back to the queue."""
        job = running.job
        context, links = tracing.join(job.row.traceparent, traceparent)
        job_spans.record_wait(job.row, context)
        name = f"process jobs.{model.name}"
        with tracing.begin(name, context, SpanKind.CONSUMER, partial(describe, job.row), links) as span:
            here, running.span = tracing.show(span), span
            if job.wants_started:
                self.recorder.announce_start(job, here)
            started = time.monotonic()
            try:
                answer = await self.infer(model, running)
            except InferenceError as error:
                metrics.inference_errors.labels(model.name, error.failure.code).inc()
                at = tell_time(job, time.monotonic() - started)
                await self.recorder.settle(job, judge(model, error), at, here)
            except asyncio.CancelledError:
                if not running.canceling:
                    tracing.fail(span, "interrupted")  # the worker stopped, or its claim was lost
                    raise
                await self.recorder.cancel(job, tell_time(job, time.monotonic() - started), here)
            else:
                seconds = time.monotonic() - started
                model.slots.pace(seconds)
                if model.slots.settle():
                    running.has_slot = False
                    metrics.slots_used.labels(model.name).dec()
                await self.recorder.succeed(job, answer, tell_time(job, seconds), seconds * 1000, here)

    async def infer(self, model: Runnable, running: Running) -> Answer:
        """One attempt in a task of its own, so that a cancellation of the job ends it and nothing else."""
        if running.canceling:
            raise asyncio.CancelledError
        running.inference = asyncio.create_task(self.attempt(model, running.job))
        try:
            return await running.inference
        finally:
            running.settling = True
            running.inference.cancel()  # where this task is cancelled itself

    async def attempt(self, model: Runnable, job: ClaimedJob) -> Answer:
        declared = model.describe(job.row.version)
        if declared is None:
            text = f"model '{model.name}' has no version {job.row.version}"
            raise InferenceError(Failure("model_not_found", text, False))
        shown = ids.show(ids.Kind.JOB, job.row.id)
        question = Question(shown, model.name, job.row.version, job.tensors or b"", job.parameters, job.timeout)
        with metrics.inference_seconds.labels(model.name).time():
            if not declared.decoupled:
                return await infer(self.triton, question, declared)
            async with Stream(job, self.recorder.steps.submit) as stream:
                return await infer(self.triton, question, declared, stream.add)

    async def renew(self) -> None:
        """The heartbeat: renews all leases in one statement, again and again, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.lease / 3):
                    await self.beat.wait()
                await asyncio.sleep(BEAT_SECONDS)  # a claim under way is committed by then; many calls make one beat
            self.beat.clear()
            held = list(self.running)
            if not held:
                continue
            try:
                kept = await self.store.renew_leases(held, self.lease)
            except Unavailable as error:
                log.warning("lease.not_renewed", jobs=len(held), error=error)
                continue
            for key in held:
                self.heed(key, kept.get(key[0]))

    def heed(self, key: Key, canceling: bool | None) -> None:
        """What the heartbeat says of a job: None where its claim is lost."""
        running = self.running.get(key)
        if running is None or running.task is None:
            return
        if canceling is None and running.settling:
            return  # the heartbeat waited for that very write
        if canceling is None:
            metrics.stale_results.inc()
            log.warning("lease.lost", **identify(running.job.row))
            running.task.cancel()  # somebody else runs it, or it has ended
        elif canceling and not running.canceling:
            running.cancel()

    async def stop(self, grace: float) -> None:
        """Lets what runs end within the grace (seconds) and hands the rest back to the queue."""
        if self.starting:
            await asyncio.wait(self.starting, timeout=grace)
        if tasks := [running.task for running in self.running.values() if running.task is not None]:
            await asyncio.wait(tasks, timeout=grace)
        left = [running for running in self.running.values() if running.task is not None]
        for running in left:
            if running.task is not None:
                running.task.cancel()
        failure = Failure("worker_stopped", "the worker stopped before the attempt ended", True)
        backs = [Requeue(id=each.job.row.id, claim=each.job.claim, failure=failure, given_back=True) for each in left]
        try:
            if backs:
                await self.store.requeue_jobs(backs)
        except Unavailable as error:
            log.warning("run.not_handed_back", jobs=len(backs), error=error)  # their leases lapse instead


def describe(row: JobRow) -> dict[str, str | int]:
    return {
        "messaging.system": "rabbitmq",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": topology.job_queue(row.model, row.priority),
        **job_spans.describe(row),
    }


def count_rights(message: Message) -> int:
    """How many jobs a message lets us claim; raises Reject for one of another kind."""
    match message:
        case JobQueued():
            return 1
        case JobsQueued():
            return len(message.job_ids)
        case _:
            raise Reject(f"a {type(message).__name__} does not belong in a queue of jobs")


def tell_wait(job: ClaimedJob) -> float:
    """Seconds from when it could run to its claim, by the database's clock."""
    assert job.row.started_at is not None, "a claimed job has started"
    return max(0.0, (job.row.started_at - job.row.run_at).total_seconds())


def tell_time(job: ClaimedJob, seconds: float) -> datetime:
    """The database's time so long after the claim: no clock of ours decides."""
    assert job.row.started_at is not None, "a claimed job has started"
    return job.row.started_at + timedelta(seconds=seconds)
