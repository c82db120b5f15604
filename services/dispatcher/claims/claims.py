"""Claims jobs for wake-ups. A wake-up claims the fairest job of its queue, not necessarily its own."""

import asyncio
import time
from collections.abc import Callable
from enum import Enum
from functools import partial
from uuid import UUID

from common.errors import Retry
from common.jobs import Priority
from common.postgres.batcher import Batcher
from services.dispatcher.claims.claimed_job import ClaimedJob
from services.dispatcher.claims.input_budget import ROOM_SECONDS, InputBudget
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.claims.store import ClaimStore
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.settings import MAX_INPUTS

BATCH = 50  # claims in one statement, which examines as many tenants and twice as many jobs of each
MAX_TRIES = 50
RETRY_SECONDS = 0.02  # while other transactions hold all queued jobs; most of them commit within this time


class NoJob(Enum):
    """Why a claim got no job."""

    QUEUE_EMPTY = "the queue is empty, or its jobs may not start now"
    LOCKED = "other transactions hold all queued jobs"
    NO_ROOM = "the inputs of running jobs leave no room"


ClaimResult = ClaimedJob | NoJob


class Claims:
    def __init__(
        self,
        store: ClaimStore,
        limits: RunLimits,
        *,
        worker: str,
        lease: float,
        read_session: Callable[[], int | None] = lambda: None,
        max_inputs: int = MAX_INPUTS,
    ) -> None:
        """`lease` is in seconds. `read_session` returns the worker's session while it holds the lock.

        `max_inputs` bounds the bytes of the inputs of all jobs that are claimed and not released.
        """
        self.inputs = InputBudget(max_inputs)
        self._store = store
        self._limits = limits
        self._worker = worker
        self._lease = lease
        self._read_session = read_session
        self._batchers: dict[tuple[str, Priority], Batcher[None, ClaimResult]] = {}

    async def claim(self, model: ServedModel, priority: Priority) -> ClaimedJob | None:
        """Claim the next job of a model and class. None if the queue is empty, or its jobs may not start now.

        Raises Unavailable, or Retry if for too long other transactions hold all queued jobs or running jobs the memory.
        """
        key = model.name, priority
        if key not in self._batchers:
            self._batchers[key] = Batcher(partial(self.claim_batch, model, priority), name="claims", limit=BATCH)
        reason, deadline = NoJob.LOCKED, time.monotonic() + ROOM_SECONDS
        for _ in range(MAX_TRIES):
            match await self._batchers[key].submit(None):
                case ClaimedJob() as job:
                    return job
                case NoJob.QUEUE_EMPTY:
                    return None
                case NoJob.LOCKED as reason:
                    await asyncio.sleep(RETRY_SECONDS)
                case NoJob.NO_ROOM as reason:
                    if self.inputs.is_closed or time.monotonic() >= deadline:
                        break
        raise Retry(reason.value)

    def release(self, job: ClaimedJob) -> None:
        """Free the memory of a claimed job that no longer runs."""
        self.inputs.release((job.row.model, job.row.priority), job.input_bytes)

    def note_end(self, model: ServedModel, tenant: UUID) -> None:
        """Record that a claimed job no longer runs."""
        model.fair_share.note_end(tenant)
        self._limits.note_end(model.name)

    async def claim_batch(self, model: ServedModel, priority: Priority, claims: list[None]) -> list[ClaimResult]:
        """Claim up to one job for each item in one statement, once there is room for inputs."""
        share, queue = model.fair_share, (model.name, priority)
        unused = max_bytes = await self.inputs.reserve(queue)
        if not max_bytes:
            return [NoJob.NO_ROOM] * len(claims)
        count = self.inputs.limit_count(queue, len(claims), max_bytes)
        turn = model.name, priority, count, share.last_tenant[priority]
        holder = self._worker, self._lease, self._read_session()
        try:
            limits = await self._limits.get()  # after the wait for room, which may be long
            if model.name in limits.models:
                claimed = await self._store.claim_within_limits(*turn, *holder, max_bytes)
            else:
                claimed = await self._store.claim_jobs(*turn, share.running, *holder, limits.paused_tenants, max_bytes)
            unused -= sum(job.input_bytes for job in claimed.jobs)
        finally:
            self.inputs.release(queue, unused)
        self.inputs.note_next(queue, claimed.next_bytes)
        for job in claimed.jobs:
            share.note_start(job.row.tenant_id, priority)
        no_job = NoJob.LOCKED if claimed.contended else NoJob.QUEUE_EMPTY
        if claimed.next_bytes is not None or len(claimed.jobs) == count:
            no_job = NoJob.NO_ROOM
        return [*claimed.jobs, *[no_job] * (len(claims) - len(claimed.jobs))]
