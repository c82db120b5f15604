"""Limits how many jobs of a tenant, and how many jobs for a model, may wait. Limits the bytes of a tenant's inputs.

Each gateway counts the jobs of a queue about once a second, and adds its own submits in between.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from uuid import UUID

from common.errors import Unavailable
from common.postgres.batcher import Batcher
from services.gateway.http.problems import FieldError, Problem, invalid
from services.gateway.jobs.queue_limits.store import Queue, QueueLimitStore
from services.gateway.models import freshness

SETTING = "CHARONIA_MAX_QUEUED_BYTES"
MAX_LIMIT = 1_000_000_000
MAX_CACHED_QUEUES = 10_000  # above it, expired ones are dropped
FIRST_RETRY_SECONDS = 5  # Retry-After before the second count
DEFAULT_RETRY_SECONDS = 60  # Retry-After if no job left the queue between two counts
MAX_RETRY_SECONDS = 3600


@dataclass
class QueueLevel:
    """The waiting jobs of a queue, as far as this gateway knows."""

    jobs: int
    limit: int
    fresh_until: float  # then the queue is counted again in the background
    valid_until: float  # then callers wait for the count
    counted_at: float
    rate: float | None  # jobs a second that left between the last two counts
    bytes: int = 0  # of the inputs of a tenant's jobs
    byte_rate: float | None = None
    counting: bool = False

    def continue_from(self, before: "QueueLevel", last: "QueueLevel") -> None:
        """Take over from the level at the start of this count and at its end. Add what was admitted meanwhile."""
        seconds = self.counted_at - last.counted_at
        self.rate = max(0, before.jobs - self.jobs) / seconds
        self.byte_rate = max(0, before.bytes - self.bytes) / seconds
        self.jobs += last.jobs - before.jobs
        self.bytes += last.bytes - before.bytes


class QueueLimits:
    """Admits jobs to the queues of their tenant and their model."""

    def __init__(
        self,
        store: QueueLimitStore,
        per_tenant: int,
        per_model: int,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`per_tenant` is the limit of tenants without their own. `max_bytes` limits the inputs of each tenant."""
        self._store = store
        self._limits = per_tenant, per_model
        self._max_bytes = max_bytes
        self._clock = clock
        self._levels: dict[Queue, QueueLevel] = {}
        self._counts: Batcher[Sequence[Queue], list[QueueLevel]] = Batcher(self._count, name="queues")
        self._tasks: set[asyncio.Task[None]] = set()

    async def admit(self, tenant_id: UUID, model: str, jobs: int = 1, size: int = 0) -> None:
        """Admit jobs for one model. Raises as `admit_all` does."""
        await self.admit_all(tenant_id, {model: jobs}, size)

    async def admit_all(self, tenant_id: UUID, jobs: Mapping[str, int], size: int) -> None:
        """Admit all jobs or none: their number by model. The models must be in the catalogue.

        `size` is the bytes of their inputs. Raises Problem: 429 for a full queue, 422 for more than ever fits.
        """
        queues: Sequence[Queue] = (tenant_id, *jobs)
        counts = (sum(jobs.values()), *jobs.values())
        levels = await self._find_levels(queues)
        self._check_whole(counts, levels, size)
        for queue, count, level in zip(queues, counts, levels, strict=True):
            if level.jobs + count > level.limit:
                seconds = estimate_wait(level.jobs + count - level.limit, level.rate)
                owner = "this tenant" if queue == tenant_id else f"the model '{queue}'"
                raise queue_full(owner, f"at most {level.limit} jobs may wait", seconds)
        self._check_bytes(levels[0], size)
        for count, level in zip(counts, levels, strict=True):
            level.jobs += count
        levels[0].bytes += size

    async def check_open(self, tenant_id: UUID) -> None:
        """Raise Problem (429) if the tenant may submit nothing: its limit is 0."""
        (level,) = await self._find_levels((tenant_id,))
        if level.limit == 0:
            raise queue_full("this tenant", "at most 0 jobs may wait", DEFAULT_RETRY_SECONDS)

    async def admit_first(self, tenant_id: UUID, jobs: Sequence[tuple[str, int]], share: float) -> int:
        """Admit as many of these jobs as fit, in their order, each with its model and the bytes of its inputs.

        They fit while each queue is filled up to this share of its limits. Inputs that never fit are admitted alone.
        Return how many were admitted.
        """
        models = tuple(dict.fromkeys(model for model, _ in jobs))
        tenant, *levels = await self._find_levels((tenant_id, *models))
        by_model = dict(zip(models, levels, strict=True))
        for admitted, (model, size) in enumerate(jobs):
            both = tenant, by_model[model]
            if any(level.jobs >= limit_share(level.limit, share) for level in both):
                return admitted
            if tenant.bytes > 0 and tenant.bytes + size > self._max_bytes * share:
                return admitted
            for level in both:
                level.jobs += 1
            tenant.bytes += size
        return len(jobs)

    async def _find_levels(self, queues: Sequence[Queue]) -> list[QueueLevel]:
        """Return the levels of queues, counted just now or shortly before."""
        levels = [level for queue in queues if (level := self._find_valid(queue))]
        if len(levels) < len(queues):
            return await self._counts.submit(queues)
        self._refresh_in_background(queues, levels)
        return levels

    def _check_whole(self, counts: Sequence[int], levels: Sequence[QueueLevel], size: int) -> None:
        """Raise Problem (422) for jobs that do not even fit into empty queues."""
        for count, level in zip(counts, levels, strict=True):
            if count > level.limit > 0:  # with a limit of 0, an operator paused the queue
                raise exceeds_limit(count, level.limit)
        if size > self._max_bytes:
            raise exceeds_bytes(size, self._max_bytes)

    def _check_bytes(self, level: QueueLevel, size: int) -> None:
        """Raise Problem (429) if a tenant may not have inputs of `size` more bytes waiting now."""
        excess = level.bytes + size - self._max_bytes
        if excess > 0:
            limit = f"inputs of at most {self._max_bytes} bytes may wait ({SETTING})"
            raise queue_full("this tenant", limit, estimate_wait(excess, level.byte_rate))

    def _find_valid(self, queue: Queue) -> QueueLevel | None:
        level = self._levels.get(queue)
        return level if level and self._clock() < level.valid_until else None

    def _refresh_in_background(self, queues: Sequence[Queue], levels: Sequence[QueueLevel]) -> None:
        """Count queues that are no longer fresh, so that no caller waits for a slow count."""
        now = self._clock()
        old = [level for level in levels if now >= level.fresh_until and not level.counting]
        if old:
            for level in old:
                level.counting = True
            task = asyncio.create_task(self._refresh(queues))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _refresh(self, queues: Sequence[Queue]) -> None:
        with contextlib.suppress(Unavailable):  # the next caller that waits for a count gets the error
            await self._counts.submit(queues)

    async def _count(self, requests: list[Sequence[Queue]]) -> list[list[QueueLevel]]:
        """Count the queues of all waiting callers with one statement."""
        began = self._clock()
        queues = {queue for request in requests for queue in request}
        stale = {queue for queue in queues if (level := self._levels.get(queue)) is None or began >= level.fresh_until}
        if stale:
            before = {queue: replace(self._levels[queue]) for queue in stale & self._levels.keys()}
            counted = await self._store.count_queues(stale, *self._limits)
            now = self._clock()
            fresh = freshness.fresh_for(now - began)
            for queue, (jobs, limit, size) in counted.items():
                level = QueueLevel(jobs, limit, now + fresh, now + 2 * fresh, began, rate=None, bytes=size)
                if last := self._levels.get(queue):
                    level.continue_from(before[queue], last)
                self._levels[queue] = level
            if len(self._levels) > MAX_CACHED_QUEUES:
                self._levels = {queue: level for queue, level in self._levels.items() if now < level.valid_until}
        return [[self._levels[queue] for queue in request] for request in requests]


def limit_share(limit: int, share: float) -> int:
    """Return this share of a limit, but not less than one job unless none may wait."""
    return max(min(1, limit), int(limit * share))


def exceeds_limit(jobs: int, limit: int) -> Problem:
    """Return the problem of more jobs than ever fit. It has no Retry-After, because waiting does not help."""
    return invalid(
        FieldError("", f"the body has {jobs} jobs, which exceeds the queue limit of {limit}; submit fewer at a time")
    )


def exceeds_bytes(size: int, limit: int) -> Problem:
    """Return the problem of inputs that never fit."""
    return invalid(
        FieldError(
            "",
            f"the body has inputs of {size} bytes, of which at most {limit} may wait; "
            f"send fewer or smaller jobs at a time, or ask your operator ({SETTING})",
        )
    )


def queue_full(owner: str, limit: str, seconds: int) -> Problem:
    text = f"the queue of {owner} is full: {limit}; try again in about {seconds} s"
    return Problem(HTTPStatus.TOO_MANY_REQUESTS, "queue_full", text, headers={"Retry-After": str(seconds)})


def estimate_wait(excess: int, rate: float | None) -> int:
    """Estimate the seconds until `excess` jobs or bytes leave a queue, at a rate a second. Pure."""
    if rate is None:
        return FIRST_RETRY_SECONDS
    seconds = excess / rate if rate else DEFAULT_RETRY_SECONDS
    return min(max(1, math.ceil(seconds)), MAX_RETRY_SECONDS)
