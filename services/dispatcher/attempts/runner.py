"""Claims jobs when a wake-up comes, and starts to run them."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from common.errors import Retry, Unavailable, UnknownMessage
from common.job_states import Failure, Priority
from common.jobs.job import JobToRun
from common.jobs.requeue import Requeue, requeue_jobs
from common.postgres.statements import Executor
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.messages import JobsQueued, Message, QueuedJob
from common.telemetry.logs import Log
from services.dispatcher import metrics
from services.dispatcher.attempts.attempts import Attempts
from services.dispatcher.attempts.running_job import RunningJob, RunningJobs
from services.dispatcher.attempts.slot import Slot
from services.dispatcher.attempts.suspects import Suspects
from services.dispatcher.claims.claims import Claims, NoRoom
from services.dispatcher.models.served_model import ServedModel

# A message may wait this long for a slot or room. RabbitMQ's acknowledgement timeout is 30 min.
HOLD_SECONDS = 600.0
PAUSE_SECONDS = 1.0  # before a message goes back because the database is away; the slot is held meanwhile
STOPPED = Failure("worker_stopped", "the worker stopped before the attempt ended", True)

T = TypeVar("T")

log = Log("runner")


class Runner:
    def __init__(
        self,
        database: Executor,
        claims: Claims,
        attempts: Attempts,
        jobs: RunningJobs,
        suspects: Suspects,
        changes: ChangePublisher,
    ) -> None:
        """`jobs` gets all that run."""
        self._database = database
        self._claims = claims
        self._attempts = attempts
        self._jobs = jobs
        self._suspects = suspects
        self._changes = changes
        self._starting: set[asyncio.Task[bool]] = set()

    async def handle(self, model: ServedModel, priority: Priority, message: Message, traceparent: str | None) -> None:
        """Start a job for each job that the message announces. Raises Retry or UnknownMessage."""
        jobs = read_jobs(message)
        self._claims.note_announced(model, priority, jobs)
        starts = [self._start_one(model, priority, traceparent) for _ in jobs]
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
        if job is None:
            metrics.stale_messages.inc()
            return True
        self._changes.notify([job.id])
        queued = job.seconds_queued()
        metrics.queue_seconds.labels(model.name, priority).observe(queued)
        metrics.model_hits.labels(model.name).inc(queued < time.monotonic() - model.available_at)
        self._start(model, job, probe, traceparent)
        return True

    def _start(self, model: ServedModel, job: JobToRun, probe: bool, traceparent: str | None) -> None:
        """Run a claimed job in a task of its own."""
        running = RunningJob(job, model, Slot(model, is_probe=probe))
        running.held.callback(self._claims.note_end, model, job)
        running.held.callback(self._jobs.pop, job.key)
        self._jobs[job.key] = running
        running.start(self._attempts.run(running, traceparent))

    async def stop(self, grace: float) -> None:
        """Let running jobs end within `grace` seconds, then give the others back to the queue."""
        self._suspects.stop()
        if self._starting:
            await asyncio.wait(self._starting, timeout=grace)
        if self._jobs:
            await asyncio.wait([running.task for running in self._jobs.values()], timeout=grace)
        left = [*self._jobs.values()]
        for running in left:
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


def read_jobs(message: Message) -> Sequence[QueuedJob]:
    """Return the jobs that a message announces. Raises UnknownMessage for one of another kind."""
    if not isinstance(message, JobsQueued):
        raise UnknownMessage(f"a {type(message).__name__} does not belong in a queue of jobs")
    return message.jobs
