"""Whose turn it is among the tenants that wait for a model."""

import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from common.jobs import Priority

MARGIN_MS = 60_000  # by which a job may come later than one with a later id without being overlooked
LOOK_SECONDS = 10.0  # what comes later still waits so long at most
NONE = UUID(int=0)


class Place(NamedTuple):
    """The tenant served last, and the id from which on its jobs are looked at."""

    tenant: UUID = NONE
    job: UUID = NONE


NOBODY = Place()


class Turns:
    """Of one model, in this dispatcher: how much each tenant runs, and who was served last in each class."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.running: Counter[UUID] = Counter()
        self.last: dict[Priority, Place] = dict.fromkeys(Priority, NOBODY)
        self.looked_at: dict[Priority, float] = dict.fromkeys(Priority, float("-inf"))

    def next(self, priority: Priority) -> Place:
        """Where a look begins; at times it is at all jobs of the tenant served last."""
        tenant, job = self.last[priority]
        if self.clock() - self.looked_at[priority] < LOOK_SECONDS:
            return Place(tenant, rewind(job))
        self.looked_at[priority] = self.clock()
        return Place(tenant)

    def begin(self, tenant: UUID, job: UUID, priority: Priority) -> None:
        self.running[tenant] += 1
        self.last[priority] = Place(tenant, job)

    def end(self, tenant: UUID) -> None:
        self.running[tenant] -= 1
        if not self.running[tenant]:
            del self.running[tenant]

    def miss(self, priority: Priority) -> None:
        """Too few were found: the next look is at all jobs."""
        self.looked_at[priority] = float("-inf")


def rewind(job: UUID) -> UUID:
    """The first UUIDv7 of a while before."""
    return UUID(int=max(0, (job.int >> 80) - MARGIN_MS) << 80)
