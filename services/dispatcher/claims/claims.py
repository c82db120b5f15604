"""Claims the jobs of a queue in the order of their turns, whichever job a wake-up was sent for."""

import asyncio
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial

from common.errors import CharoniaError, Retry
from common.job_states import Priority
from common.jobs.claim import ClaimBatch, Turn, claim_jobs, claim_within_limits
from common.jobs.job import JobToRun
from common.postgres.batcher import Batcher
from common.postgres.database import Database
from services.dispatcher.claims.fetch_permits import FetchPermits
from services.dispatcher.claims.input_budget import InputBudget, Queue, Room
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.settings import MAX_FETCHES, MAX_INPUTS

BATCH = 50  # claims in one statement, which examines as many tenants and twice as many jobs of each
MAX_TRIES = 50
RETRY_SECONDS = 0.02  # while other transactions hold all queued jobs; most of them commit within this time


class NoJob(Enum):
    """Why a claim got no job."""

    QUEUE_EMPTY = "the queue is empty, or its jobs may not start now"
    LOCKED = "other transactions hold all queued jobs"
    NO_ROOM = "the inputs of running jobs leave no room"


ClaimResult = JobToRun | NoJob


class NoRoom(CharoniaError):
    """The inputs of running jobs leave no room for the next job."""


class Claims:
    def __init__(
        self,
        database: Database,
        limits: RunLimits,
        *,
        worker: str,
        lease: float,
        read_session: Callable[[], int | None] = lambda: None,
        max_inputs: int = MAX_INPUTS,
        max_fetches: int = MAX_FETCHES,
    ) -> None:
        """`lease` is in seconds. `read_session` returns the worker's session while it holds the lock.

        `max_inputs` bounds the bytes of the inputs of all jobs that are claimed and not released. `max_fetches` bounds
        the jobs that fetch inputs.
        """
        self.inputs = InputBudget(max_inputs)
        self.fetch_permits = FetchPermits(max_fetches, limits.wake_next)
        self._database = database
        self._limits = limits
        self._worker = worker
        self._lease = lease
        self._read_session = read_session
        self._batchers: dict[tuple[str, Priority], Batcher[None, ClaimResult]] = {}
        self._late: set[Queue] = set()  # whose last claim left jobs that no message announces

    async def claim(self, model: ServedModel, priority: Priority) -> JobToRun | None:
        """Claim the next job of a model and class. None if the queue is empty, or its jobs may not start now.

        Raises Unavailable, NoRoom, or Retry if for too long other transactions hold all queued jobs.
        """
        key = model.name, priority
        if key not in self._batchers:
            self._batchers[key] = Batcher(partial(self.claim_batch, model, priority), name="claims", limit=BATCH)
        for _ in range(MAX_TRIES):
            match await self._batchers[key].submit(None):
                case JobToRun() as job:
                    return job
                case NoJob.QUEUE_EMPTY:
                    return None
                case NoJob.NO_ROOM:
                    raise NoRoom
                case NoJob.LOCKED:
                    await asyncio.sleep(RETRY_SECONDS)
        raise Retry(NoJob.LOCKED.value)

    def has_late(self, model: ServedModel, priority: Priority) -> bool:
        """Return whether the last claim left jobs that may start, and that no message announces."""
        return (model.name, priority) in self._late

    async def wait_for_room(self, model: ServedModel, priority: Priority) -> None:
        """Wait until the next job may fit, but not for long: by then a smaller job of another tenant may be next."""
        await self.inputs.wait((model.name, priority))

    def note_end(self, model: ServedModel, job: JobToRun) -> None:
        """Record that a claimed job no longer runs, and free its memory."""
        self.inputs.note_end((job.model, job.priority), measure([job]))
        model.turns.note_end(job.tenant_id)
        self._limits.note_end(model.name)

    async def claim_batch(self, model: ServedModel, priority: Priority, claims: list[None]) -> list[ClaimResult]:
        """Claim up to one job for each item in one statement, as far as there is room for their inputs."""
        turns, queue = model.turns, (model.name, priority)
        limits, waiting = await self._limits.get(), self.fetch_permits.list_waiting(model.name)
        is_limited = model.name in limits.models
        room, loaded = self.inputs.reserve(queue), Room(0, 0)
        try:
            turn = Turn(
                model=model.name,
                priority=priority,
                count=len(claims),
                worker=self._worker,
                session=self._read_session(),
                lease=self._lease,
                last_tenant=turns.last_tenant[priority],
                closed_tenants=waiting if is_limited else limits.paused_tenants | waiting,
                on_probation=limits.on_probation.get(model.name, ()),
                max_bytes=room.in_turn,
                max_passing_bytes=room.passing,
            )
            if is_limited:
                claimed = await claim_within_limits(self._database, turn)
            else:
                claimed = await claim_jobs(self._database, turn, turns.count_running(priority))
            loaded = measure(claimed.jobs)
        finally:
            self.inputs.release(queue, Room(room.in_turn - loaded.in_turn, room.passing - loaded.passing))
        self.inputs.note_next(queue, claimed.next_bytes)
        model.lacks_room = claimed.next_bytes is not None
        (self._late.add if claimed.late else self._late.discard)(queue)
        for job in claimed.jobs:
            turns.note_start(job.tenant_id, priority, passed=job.passed)
        reason, without = explain(claimed), len(claims) - len(claimed.jobs)
        if reason is NoJob.QUEUE_EMPTY and without:
            self.fetch_permits.note_skipped(model.name, waiting, without)
        return [*claimed.jobs, *[reason] * without]


def explain(claimed: ClaimBatch) -> NoJob:
    """Return why a claim got no more jobs."""
    if claimed.contended:
        return NoJob.LOCKED
    return NoJob.QUEUE_EMPTY if claimed.next_bytes is None else NoJob.NO_ROOM


def measure(jobs: Iterable[JobToRun]) -> Room:
    """Return the bytes of the inputs of claimed jobs."""
    sizes = {False: 0, True: 0}
    for job in jobs:
        sizes[job.passed] += job.input_bytes
    return Room(sizes[False], sizes[True])


def name_fetched(job: JobToRun) -> Queue:
    """Return the queue of what a job fetched after its claim."""
    return job.model, job.priority, "fetched"
