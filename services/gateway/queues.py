"""How many jobs may wait, of one tenant and for one model. Pages of the index are read about once a second, whatever is
submitted: in between each gateway adds what it has let in itself."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from uuid import UUID

from common.batching import Batcher
from common.errors import Unavailable
from services.gateway import freshness
from services.gateway.errors import FieldError, Problem, invalid
from services.gateway.limit_store import Due, Ended, LimitStore, Queue

MAX_LIMIT = 1_000_000_000
MANY = 10_000  # queues are remembered; beyond it those that nobody asks for are forgotten
LATEST = 2_000  # jobs that ended, from which it is told how fast queues get shorter; as many that wait are looked at
UNKNOWN_SECONDS = 60  # what Retry-After says where none ended within a minute
MOST_SECONDS = 3600


@dataclass
class Level:
    """Jobs that wait in a queue, as far as this gateway knows."""

    jobs: int
    limit: int
    until: float  # then it is counted anew, while this still serves
    last: float  # from then on whoever asks waits for that
    counting: bool = False


class Queues:
    def __init__(
        self, store: LimitStore, per_tenant: int, per_model: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`per_tenant` is for tenants that have no limit of their own."""
        self.store = store
        self.limits = per_tenant, per_model
        self.clock = clock
        self.levels: dict[Queue, Level] = {}
        self.counts: Batcher[Sequence[Queue], list[Level]] = Batcher(self.count, name="queues")
        self.tasks: set[asyncio.Task[None]] = set()
        self.ended: dict[Queue, Ended] = {}
        self.due: dict[Queue, Due] = {}
        self.seen_until = -math.inf
        self.looks: Batcher[Queue, tuple[Ended | None, Due]] = Batcher(self.look, name="queues that are full")

    async def admit(self, tenant_id: UUID, model: str, jobs: int = 1) -> None:
        """Lets all of the jobs in or none; raises Problem (429; 422 where they never can be).

        The model is one of the catalogue's.
        """
        queues: Sequence[Queue] = (tenant_id, model)
        known = [level for queue in queues if (level := self.find(queue))]
        if len(known) == len(queues):
            levels = known
            self.count_ahead(queues, known)
        else:
            levels = await self.counts.submit(queues)
        for queue, level in zip(queues, levels, strict=True):
            if jobs > level.limit > 0:  # a limit of 0 is a pause that an operator ends
                raise never(jobs, level.limit)
            if level.jobs + jobs > level.limit:
                seconds = estimate(level.jobs + jobs - level.limit, *await self.looks.submit(queue))
                raise refuse("this tenant" if queue == tenant_id else f"the model '{model}'", level.limit, seconds)
        for level in levels:
            level.jobs += jobs

    def find(self, queue: Queue) -> Level | None:
        level = self.levels.get(queue)
        return level if level and self.clock() < level.last else None

    def count_ahead(self, queues: Sequence[Queue], levels: Sequence[Level]) -> None:
        """So that nobody has to wait for a long count, least of all another tenant."""
        now = self.clock()
        old = [level for level in levels if now >= level.until and not level.counting]
        if old:
            for level in old:
                level.counting = True
            task = asyncio.create_task(self.count_again(queues))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def count_again(self, queues: Sequence[Queue]) -> None:
        with contextlib.suppress(Unavailable):  # soon somebody waits for it, and hears that
            await self.counts.submit(queues)

    async def count(self, asked: list[Sequence[Queue]]) -> list[list[Level]]:
        """One statement for all who wait."""
        began = self.clock()
        wanted = {queue for queues in asked for queue in queues}
        stale = {queue for queue in wanted if (level := self.levels.get(queue)) is None or began >= level.until}
        if stale:
            before = {queue: self.levels[queue].jobs for queue in stale & self.levels.keys()}
            counted = await self.store.count_queues(stale, *self.limits)
            now = self.clock()
            fresh = freshness.last(now - began)
            for queue, (jobs, limit) in counted.items():
                meanwhile = self.levels[queue].jobs - before[queue] if queue in before else 0
                self.levels[queue] = Level(jobs + meanwhile, limit, now + fresh, now + 2 * fresh)
            if len(self.levels) > MANY:
                self.levels = {queue: level for queue, level in self.levels.items() if now < level.last}
        return [[self.levels[queue] for queue in queues] for queues in asked]

    async def look(self, asked: list[Queue]) -> list[tuple[Ended | None, Due]]:
        """What ended of each queue lately and what is due, looked up once a second where somebody is refused."""
        if self.clock() >= self.seen_until:
            self.ended, self.due = await self.store.count_ended(LATEST), {}
            self.seen_until = self.clock() + freshness.FRESH_SECONDS
        if new := set(asked) - self.due.keys():
            self.due |= dict.fromkeys(new, Due(0, None)) | await self.store.count_due(new, LATEST)
        return [(self.ended.get(queue), self.due[queue]) for queue in asked]


def never(jobs: int, limit: int) -> Problem:
    """What no waiting helps: no Retry-After would be honest."""
    return invalid(FieldError("", f"has {jobs} jobs, of which only {limit} may wait at a time"))


def refuse(whose: str, limit: int, seconds: int) -> Problem:
    text = f"the queue of {whose} is full: {limit} jobs may wait; try again in about {seconds} s"
    return Problem(HTTPStatus.TOO_MANY_REQUESTS, "queue_full", text, headers={"Retry-After": str(seconds)})


def estimate(excess: int, ended: Ended | None, due: Due) -> int:
    """Seconds until so many jobs have left a queue, if they leave it as those did that ended lately. Pure."""
    seconds = UNKNOWN_SECONDS if ended is None else excess * ended.seconds / ended.jobs
    # The others leave no sooner than their time comes, if there are none but these, or nothing else to go by.
    if due.next_in is not None and due.jobs < excess and (due.whole or ended is None):
        seconds = max(due.next_in, seconds if due.jobs else 0)
    return min(max(1, math.ceil(seconds)), MOST_SECONDS)
