"""Claims jobs when a wake-up comes, and runs them on Triton."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from opentelemetry.trace import Span, SpanKind

from common import job_spans
from common.errors import Reject, Retry, Unavailable
from common.job_states import Failure, Priority
from common.jobs.job import JobToRun
from common.jobs.requeue import Requeue, requeue_jobs
from common.postgres.statements import Executor
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.messages import JobsQueued, Message
from common.telemetry import tracing
from common.telemetry.logs import Log
from common.views.job import job_log_fields
from services.dispatcher import metrics
from services.dispatcher.attempts import Attempts
from services.dispatcher.claims.claims import Claims, NoRoom
from services.dispatcher.failure_policy import classify
from services.dispatcher.heartbeat import Heartbeat
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.results.store import OutputsNotStored
from services.dispatcher.retry_policy import Interrupted
from services.dispatcher.running_job import RunningJob, span_attributes
from services.dispatcher.slot_filler import SlotFiller
from services.dispatcher.suspects import Suspects
from services.dispatcher.triton.attempt import InferenceResult
from services.dispatcher.triton.errors import InferenceError

# A message may wait this long for a slot or room. RabbitMQ's acknowledgement timeout is 30 min.
HOLD_SECONDS = 600.0
PAUSE_SECONDS = 1.0  # before a message goes back because the database is away; the slot is held meanwhile
STOPPED = Failure("worker_stopped", "the worker stopped before the attempt ended", True)

Save = Callable[[], Coroutine[Any, Any, None]]
T = TypeVar("T")

log = Log("runner")


class Runner:
    def __init__(
        self,
        database: Executor,
        claims: Claims,
        recorder: ResultRecorder,
        changes: ChangePublisher,
        heartbeat: Heartbeat,
        attempts: Attempts,
    ) -> None:
        self._database = database
        self._claims = claims
        self._recorder = recorder
        self._changes = changes
        self._heartbeat = heartbeat
        self._attempts = attempts
        self._suspects = Suspects(heartbeat.jobs)
        self._starting: set[asyncio.Task[bool]] = set()
        self._filler = SlotFiller(claims, self._start_in_slot)

    async def handle(self, model: ServedModel, priority: Priority, message: Message, traceparent: str | None) -> None:
        """Start a job for each job that the message announces. Raises Retry or Reject."""
        starts = [self._start_one(model, priority, traceparent) for _ in range(count_jobs(message))]
        for error in await asyncio.gather(*starts, return_exceptions=True):  # concurrently, so that all wait from now
            if error is not None:
                raise error

    async def _start_one(self, model: ServedModel, priority: Priority, traceparent: str | None) -> None:
        """Wait until the model is available with a free slot, then claim and start a job.

        While its inputs find no room, this waits without a slot, which other work may use.
        """
        deadline = asyncio.get_running_loop().time() + HOLD_SECONDS
        probe = await wait_until(deadline, model.acquire(priority), "slot")
        # A lost channel must not interrupt a claim.
        while not await asyncio.shield(self._start_in_slot(model, priority, probe, traceparent)):
            await wait_until(deadline, self._claims.wait_for_room(model, priority), "room for inputs")
            probe = await wait_until(deadline, model.acquire(priority), "slot")

    def _start_in_slot(
        self, model: ServedModel, priority: Priority, probe: bool, traceparent: str | None = None
    ) -> asyncio.Task[bool]:
        """Claim a job in a task. Its result is whether the message is done: not if the next job found no room."""
        starting = asyncio.create_task(self._claim_and_start(model, priority, traceparent, probe))
        self._starting.add(starting)
        starting.add_done_callback(self._forget_start)
        return starting

    def _forget_start(self, starting: asyncio.Task[bool]) -> None:
        self._starting.discard(starting)
        if not starting.cancelled():
            starting.exception()  # marks it as retrieved, in case the waiter was cancelled

    async def _claim_and_start(
        self, model: ServedModel, priority: Priority, traceparent: str | None, probe: bool
    ) -> bool:
        """Claim a job and run it in a task of its own. Free the slot if there is none. Return False without room."""
        job = None
        try:
            await self._suspects.wait()
            job = await self._claims.claim(model, priority)
        except NoRoom:
            return False
        except Unavailable as error:
            await asyncio.sleep(PAUSE_SECONDS)
            raise Retry(str(error)) from error
        finally:
            if job is None:
                model.release(probe=probe)
        self._filler.note_claim(model, priority)
        if job is None:
            metrics.stale_messages.inc()
            return True
        self._changes.notify([job.id])
        metrics.queue_seconds.labels(model.name, priority).observe(job.seconds_queued())
        running = RunningJob(job, is_probe=probe)
        self._heartbeat.jobs[running.key] = running
        running.task = asyncio.create_task(self._run(model, running, traceparent))
        metrics.slots_used.labels(model.name).inc()
        running.task.add_done_callback(partial(self._forget, model, running))
        return True

    def _forget(self, model: ServedModel, running: RunningJob, task: asyncio.Task[None]) -> None:
        """Free what a job held when its task has ended."""
        self._heartbeat.jobs.pop(running.key, None)
        self._claims.note_end(model, running.job.tenant_id)
        self._claims.release(running.job, running.fetched)
        if running.is_probe:
            model.breaker.end_probe()
        if running.has_slot:
            model.concurrency.release()
            metrics.slots_used.labels(model.name).dec()
        if running.is_saving:
            model.concurrency.note_saved()
        if not task.cancelled() and (error := task.exception()) is not None:
            # The lease lapses now, and a sweeper decides what happens to the job.
            log.error("job.task_failed", **job_log_fields(running.job), error=repr(error))

    async def _run(self, model: ServedModel, running: RunningJob, traceparent: str | None) -> None:
        """Run a claimed job to its end, or until it goes back to the queue."""
        job = running.job
        context, links = tracing.continue_trace(job.traceparent, traceparent)
        job_spans.record_queue_time(job, context)
        name = f"process jobs.{model.name}"
        with tracing.start_span(name, context, SpanKind.CONSUMER, partial(span_attributes, job), links) as span:
            running.span = span
            if job.wants_started:
                self._recorder.announce_start(job, tracing.to_traceparent(span))
            await self._infer_and_record(model, running, span)

    async def _infer_and_record(self, model: ServedModel, running: RunningJob, span: Span) -> None:
        job, trace, began = running.job, tracing.to_traceparent(span), time.monotonic()
        try:
            save = await self._infer_once(model, running, began, trace)
            await self._save(running, save)
        except OutputsNotStored as error:
            at = job.time_after(time.monotonic() - began)
            log.warning("job.outputs_not_stored", **job_log_fields(job), error=error)
            await self._recorder.record_failure(job, error.outcome, at, trace)
        except asyncio.CancelledError:
            if not running.canceling:
                tracing.record_error(span, "interrupted")  # the worker stopped, or its claim was lost
                raise
            await self._recorder.cancel(job, job.time_after(time.monotonic() - began), trace)

    async def _infer_once(self, model: ServedModel, running: RunningJob, began: float, trace: str) -> Save:
        """Run the inference. Return how to save what came of it."""
        job = running.job
        try:
            result = await self._infer(model, running)
        except InferenceError as error:
            metrics.inference_errors.labels(model.name, error.failure.code).inc()
            seconds = time.monotonic() - began
            outcome = classify(model, error, job.id, seconds - running.waiting_seconds - running.reading_seconds)
            if isinstance(outcome, Interrupted) and self._suspects.note_interruption(running):
                outcome = msgspec.structs.replace(outcome, doubtful=True)
            return partial(self._recorder.record_failure, job, outcome, job.time_after(seconds), trace)
        seconds = time.monotonic() - began
        inference_seconds = seconds - running.waiting_seconds - running.reading_seconds
        model.note_success(inference_seconds)
        running.release_before_save(model)
        return partial(self._recorder.succeed, job, result, job.time_after(seconds), inference_seconds * 1000, trace)

    async def _save(self, running: RunningJob, save: Save) -> None:
        """Save a result in a task of its own, so that a cancel of the job ends only the tries."""
        if running.canceling:
            raise asyncio.CancelledError
        running.save = asyncio.create_task(save())
        try:
            await running.save
        finally:
            running.save.cancel()  # in case this task itself is cancelled

    async def _infer(self, model: ServedModel, running: RunningJob) -> InferenceResult:
        """Run one attempt in a task of its own, so that a cancel of the job ends only the attempt."""
        if running.canceling:
            raise asyncio.CancelledError
        running.inference = asyncio.create_task(self._attempt(model, running))
        try:
            return await running.inference
        except (InferenceError, asyncio.CancelledError) as error:
            if not isinstance(error, InferenceError) or error.failure.code == "timeout":
                self._suspects.note_left(running)
            raise
        finally:
            running.recording = True
            running.inference.cancel()  # in case this task itself is cancelled

    async def _attempt(self, model: ServedModel, running: RunningJob) -> InferenceResult:
        async with self._suspects.run_alone(running):
            return await self._attempts.run(model, running)

    async def stop(self, grace: float) -> None:
        """Let running jobs end within `grace` seconds, then give the others back to the queue."""
        self._filler.stop()
        self._suspects.stop()
        if self._starting:
            await asyncio.wait(self._starting, timeout=grace)
        if tasks := [running.task for running in self._heartbeat.jobs.values() if running.task is not None]:
            await asyncio.wait(tasks, timeout=grace)
        left = [running for running in self._heartbeat.jobs.values() if running.task is not None]
        for running in left:
            if running.task is not None:
                running.task.cancel()
        await self._give_back([running.job for running in left])

    async def _give_back(self, jobs: Sequence[JobToRun]) -> None:
        requeues = [Requeue(id=job.id, claim=job.claim, failure=STOPPED, given_back=True) for job in jobs]
        try:
            if requeues:
                await requeue_jobs(self._database, requeues)
        except Unavailable as error:
            log.warning("jobs.give_back_failed", jobs=len(requeues), error=error)  # their leases lapse


async def wait_until(deadline: float, waiting: Awaitable[T], what: str) -> T:
    """Wait for a slot or room until a time of the loop. Raises Retry."""
    try:
        async with asyncio.timeout_at(deadline):
            return await waiting
    except TimeoutError:
        raise Retry(f"no {what} became free within {HOLD_SECONDS:g} s") from None


def count_jobs(message: Message) -> int:
    """Return how many jobs a message announces. Raises Reject for a message of another kind."""
    if not isinstance(message, JobsQueued):
        raise Reject(f"a {type(message).__name__} does not belong in a queue of jobs")
    return message.count
