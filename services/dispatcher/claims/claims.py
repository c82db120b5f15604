"""Claims jobs of a queue: the one that a message announces, or the one whose turn it is if jobs compete for slots."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from uuid import UUID

import msgspec

from common.errors import CharoniaError, Retry, Unavailable
from common.job_states import Priority
from common.jobs.claim import (
    Claim,
    ClaimBatch,
    Found,
    Search,
    claim_jobs,
    claim_within_limits,
    find_room,
    find_waiting,
)
from common.jobs.job import JobToRun
from common.postgres.batcher import Batcher
from common.postgres.database import Database
from common.rabbitmq.messages import QueuedJob
from services.dispatcher.claims.candidates import Candidates
from services.dispatcher.claims.fetch_permits import FetchPermits
from services.dispatcher.claims.input_budget import InputBudget, Room, measure
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.claims.no_job import NoJob, explain
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.settings import MAX_FETCHES, MAX_INPUTS

BATCH = 50  # claims in one statement
SPARE = 20  # candidates beyond twice as many, for those that others have taken, or that do not fit
MAX_TRIES = 50
RETRY_SECONDS = 0.02  # while other transactions hold all queued jobs; most of them commit within this time

ClaimResult = JobToRun | NoJob


class NoRoom(CharoniaError):
    """The inputs of running jobs leave no room for the next job."""


class ClaimQueue(msgspec.Struct, frozen=True):
    """What claims of a model and a priority share. An item of `claims` is the time of the loop when it was wanted."""

    candidates: Candidates
    claims: Batcher[float, ClaimResult]
    searches: Batcher[None, None]


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
        self._queues: dict[tuple[str, Priority], ClaimQueue] = {}

    def note_announced(self, model: ServedModel, priority: Priority, jobs: Sequence[QueuedJob]) -> None:
        """Record which jobs a message announces."""
        candidates = self._get_queue(model, priority).candidates
        candidates.competing |= model.count_free() < len(jobs)
        for job in jobs:
            candidates.add(job)

    async def claim(self, model: ServedModel, priority: Priority) -> JobToRun | None:
        """Claim the next job of a model and class. None if the queue is empty, or its jobs may not start now.

        Raises Unavailable, NoRoom, or Retry if for too long other transactions hold all queued jobs.
        """
        queue, began = self._get_queue(model, priority), time.monotonic()
        with suppress(Unavailable):  # jobs that are known can still be claimed
            await self._refresh(queue)
        for _ in range(MAX_TRIES):
            match await queue.claims.submit(began):
                case JobToRun() as job:
                    return job
                case NoJob.UNKNOWN:
                    await queue.searches.submit(None)
                case NoJob.QUEUE_EMPTY:
                    return None
                case NoJob.NO_ROOM:
                    raise NoRoom
                case NoJob.LOCKED:
                    await asyncio.sleep(RETRY_SECONDS)
                    await self._refresh(queue)
        raise Retry(NoJob.LOCKED.value)

    async def _refresh(self, queue: ClaimQueue) -> None:
        """Search if jobs compete that may not be known."""
        if queue.candidates.is_stale():
            await queue.searches.submit(None)

    async def wait_for_room(self, model: ServedModel, priority: Priority) -> None:
        """Wait until the next job may fit, but not for long: by then a smaller job of another tenant may be next."""
        await self.inputs.wait((model.name, priority))

    def note_end(self, model: ServedModel, job: JobToRun) -> None:
        """Record that a claimed job no longer runs, and free its memory."""
        self.inputs.note_end((job.model, job.priority), measure([job]))
        model.turns.note_end(job.tenant_id)
        self._limits.note_end(model.name)

    def _get_queue(self, model: ServedModel, priority: Priority) -> ClaimQueue:
        key = model.name, priority
        if key not in self._queues:
            claims = Batcher(partial(self._claim_batch, model, priority), name="claims", limit=BATCH)
            searches = Batcher(partial(self._search, model, priority), name="searches")
            self._queues[key] = ClaimQueue(Candidates(), claims, searches)
        return self._queues[key]

    async def _search(self, model: ServedModel, priority: Priority, callers: list[None]) -> list[None]:
        """Look for jobs that wait, once for all callers."""
        candidates, limits = self._get_queue(model, priority).candidates, await self._limits.get()
        waiting = self.fetch_permits.list_waiting(model.name)

        async def find(count: int) -> Found:
            closed, running = waiting.union(limits.paused_tenants), model.turns.count_running(priority)
            if model.name in limits.models:
                room = await find_room(self._database, model.name, count)
                closed, running = waiting.union(room.closed_tenants), Counter(room.running)
            search = Search(
                model=model.name,
                priority=priority,
                count=count,
                last_tenant=model.turns.last_tenant[priority],
                running=running,
                closed_tenants=closed,
                on_probation=limits.on_probation.get(model.name, ()),
            )
            return await find_waiting(self._database, search)

        await candidates.search(find, passing_over=waiting)
        return callers

    async def _claim_batch(self, model: ServedModel, priority: Priority, wanted: list[float]) -> list[ClaimResult]:
        """Claim up to one job for each item in one statement, as far as there is room for their inputs."""
        key, candidates = (model.name, priority), self._get_queue(model, priority).candidates
        waiting = self.fetch_permits.list_waiting(model.name)
        room, loaded = self.inputs.reserve(key), Room(0, 0)
        try:
            claimed = await self._claim_some(model, priority, len(wanted), room, waiting)
            loaded = measure(claimed.jobs)
        finally:
            self.inputs.release(key, Room(room.in_turn - loaded.in_turn, room.passing - loaded.passing))
        self.inputs.note_next(key, claimed.next_bytes)
        model.lacks_room = claimed.next_bytes is not None
        candidates.competing |= claimed.contended or model.lacks_room
        for job in claimed.jobs:
            model.turns.note_start(job.tenant_id, priority, passed=job.passed)
        reasons = [explain(claimed, candidates, asked_at) for asked_at in wanted[len(claimed.jobs) :]]
        if empty := reasons.count(NoJob.QUEUE_EMPTY):
            self.fetch_permits.note_skipped(model.name, waiting.union(candidates.passed_over), empty)
        return [*claimed.jobs, *reasons]

    async def _claim_some(
        self, model: ServedModel, priority: Priority, count: int, room: Room, closed: Collection[UUID]
    ) -> ClaimBatch:
        """Claim up to `count` of the candidates in the order of their turns, but none of closed tenants."""
        candidates, limits = self._get_queue(model, priority).candidates, await self._limits.get()
        last_tenant, offered = model.turns.last_tenant[priority], list[QueuedJob]()
        claim = Claim(
            model=model.name,
            priority=priority,
            count=count,
            worker=self._worker,
            session=self._read_session(),
            lease=self._lease,
            on_probation=limits.on_probation.get(model.name, ()),
            max_bytes=room.in_turn,
            max_passing_bytes=room.passing,
        )

        def choose(running: Mapping[UUID, int], others: Collection[UUID], per_tenant: int | None) -> list[UUID]:
            chosen = candidates.choose(2 * count + SPARE, running, last_tenant, {*closed, *others}, per_tenant)
            offered.extend(chosen)
            return [job.id for job in chosen]

        if model.name in limits.models:
            candidates.competing = True  # over all dispatchers
            claimed = await claim_within_limits(
                self._database, claim, lambda room: choose(room.running, room.closed_tenants, room.per_tenant)
            )
        else:
            jobs = choose(model.turns.count_running(priority), limits.paused_tenants, None)
            claimed = await claim_jobs(self._database, claim, jobs)
        candidates.settle(offered, claimed.waiting)
        return claimed
