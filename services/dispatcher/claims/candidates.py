"""The jobs of one queue that this dispatcher knows to wait, and whose turn it is."""

import heapq
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from uuid import UUID

from common.jobs.claim import Found
from common.rabbitmq.messages import QueuedJob

MAX_CANDIDATES = 2000  # of a queue; a search finds the rest
SEARCHED = 100  # jobs that a search finds at most
SEARCHED_SLOWLY = 1000  # the same, if the last search was slow: such as under a long snapshot
SLOW_SECONDS = 0.02
SEARCH_SHARE = 10  # while jobs compete, all but this part of the time passes between two searches


class Candidates:
    """Jobs that messages announced, or that the last search found. Some of them may have started elsewhere since.

    A message that finds a free slot starts its own job. If jobs compete for slots, it is the job whose turn it is among
    all that wait, so searches keep the candidates up to date.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self.competing = True  # whether jobs may wait for slots, other ones than those known here
        self.passed_over: Collection[UUID] = ()  # tenants whose jobs the last search left out for now
        self._clock = clock
        self._jobs: defaultdict[UUID, set[UUID]] = defaultdict(set)  # of each tenant
        self._count = 0
        self._began_at = self._found_at = float("-inf")  # when the last search began, and the last one that has ended
        self._search_seconds = 0.0
        self.found_all = False  # whether the last search found all that waited
        self._searching = False
        self._added: list[QueuedJob] = []  # while it searches
        self._taken: set[UUID] = set()  # the same

    def add(self, job: QueuedJob) -> None:
        """Add an announced job."""
        if self._count < MAX_CANDIDATES:
            self._insert(job)
            if self._searching:
                self._added.append(job)

    def choose(
        self,
        count: int,
        running: Mapping[UUID, int],
        last_tenant: UUID,
        closed: Collection[UUID] = (),
        per_tenant: int | None = None,
    ) -> list[QueuedJob]:
        """Return up to `count` jobs in the order of their turns.

        The tenant that runs the fewest jobs goes first. Tenants that run equally many take turns, beginning after the
        last one. Within a tenant, the oldest job goes first. `per_tenant` bounds what a tenant may run.
        """
        turns = []
        for tenant, jobs in self._jobs.items():
            left = count if per_tenant is None else min(count, per_tenant - running.get(tenant, 0))
            if left > 0 and tenant not in closed:
                oldest = iter(heapq.nsmallest(left, jobs))
                turns.append((running.get(tenant, 0), tenant <= last_tenant, tenant, next(oldest), oldest))
        heapq.heapify(turns)
        chosen: list[QueuedJob] = []
        while turns and len(chosen) < count:
            jobs_running, is_last, tenant, job, others = turns[0]
            chosen.append(QueuedJob(tenant, job))
            if (following := next(others, None)) is None:
                heapq.heappop(turns)
            else:
                heapq.heapreplace(turns, (jobs_running + 1, is_last, tenant, following, others))
        return chosen

    def settle(self, offered: Iterable[QueuedJob], waiting: Collection[UUID]) -> None:
        """Drop those of the jobs offered to a claim that no longer wait."""
        for job in offered:
            if job.id not in waiting:
                self._remove(job)
                if self._searching:
                    self._taken.add(job.id)
        self._note_rest()

    def is_stale(self) -> bool:
        """Whether to search before a claim."""
        waited = self._clock() - self._began_at
        return self.competing and not self._searching and waited > SEARCH_SHARE * self._search_seconds

    def was_searched_since(self, moment: float) -> bool:
        """Return whether a search has ended that began at this time of the clock, or later."""
        return self._found_at >= moment

    async def search(self, find: Callable[[int], Awaitable[Found]], *, passing_over: Collection[UUID] = ()) -> None:
        """Replace the jobs by what `find` finds, and by what becomes known meanwhile. It takes the greatest number.

        `passing_over`: tenants whose jobs it leaves out for now.
        """
        self._began_at, self._searching = self._clock(), True
        seconds: float | None = None
        try:
            found = await find(SEARCHED_SLOWLY if self._search_seconds > SLOW_SECONDS else SEARCHED)
            self._jobs.clear()
            self._count = 0
            for job in (*found.jobs, *self._added):
                if job.id not in self._taken:
                    self._insert(job)
            self._found_at, self.found_all, self.passed_over = self._began_at, found.is_all, passing_over
            self._note_rest()
            seconds = found.seconds  # what it cost the server: a busy dispatcher reads the answer later
        finally:
            self._search_seconds = self._clock() - self._began_at if seconds is None else seconds
            self._searching = False
            self._added.clear()
            self._taken.clear()

    def _note_rest(self) -> None:
        if self.found_all and not self._count:
            self.competing = False

    def _insert(self, job: QueuedJob) -> None:
        jobs = self._jobs[job.tenant_id]
        self._count += job.id not in jobs
        jobs.add(job.id)

    def _remove(self, job: QueuedJob) -> None:
        jobs = self._jobs.get(job.tenant_id, set())
        self._count -= job.id in jobs
        jobs.discard(job.id)
        if not jobs:
            self._jobs.pop(job.tenant_id, None)
