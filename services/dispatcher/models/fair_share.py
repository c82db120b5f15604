"""Shares a model fairly among the tenants with queued jobs."""

import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from common.jobs import Priority

MARGIN_MS = 60_000  # a job may be committed this much later than a job with a higher id
FULL_SEARCH_SECONDS = 10.0  # the longest delay of a job that is committed even later
NIL = UUID(int=0)


class Cursor(NamedTuple):
    """Where the search for jobs begins: the tenant served last, and an id among its jobs."""

    tenant: UUID = NIL
    job: UUID = NIL


START = Cursor()


class FairShare:
    """Tracks, for one model in this dispatcher, the running jobs of each tenant and the tenant served last."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self.running: Counter[UUID] = Counter()
        self._clock = clock
        self._last: dict[Priority, Cursor] = dict.fromkeys(Priority, START)
        self._searched_at: dict[Priority, float] = dict.fromkeys(Priority, float("-inf"))

    def next_cursor(self, priority: Priority) -> Cursor:
        """Return where the next search begins. At intervals it covers all jobs of the tenant served last."""
        tenant, job = self._last[priority]
        if self._clock() - self._searched_at[priority] < FULL_SEARCH_SECONDS:
            return Cursor(tenant, rewind(job))
        self._searched_at[priority] = self._clock()
        return Cursor(tenant)

    def note_start(self, tenant: UUID, job: UUID, priority: Priority) -> None:
        self.running[tenant] += 1
        self._last[priority] = Cursor(tenant, job)

    def note_end(self, tenant: UUID) -> None:
        self.running[tenant] -= 1
        if not self.running[tenant]:
            del self.running[tenant]

    def request_full_search(self, priority: Priority) -> None:
        """Let the next search cover all jobs, because the last one found too few."""
        self._searched_at[priority] = float("-inf")


def rewind(job: UUID) -> UUID:
    """Return the first UUIDv7 of MARGIN_MS earlier."""
    return UUID(int=max(0, (job.int >> 80) - MARGIN_MS) << 80)
