"""Finds jobs whose dispatcher no longer renews their leases."""

import time
from collections.abc import Callable

from common.jobs.rescue import Lease, LostJobs, find_abandoned, find_overdue
from common.postgres.statements import Executor
from common.telemetry.logs import Log

WATCHED = 5000  # leases at a time

log = Log("sweeper")


class LeaseGrace:
    """Decides whether a lapsed lease means a lost dispatcher, or only a database that was away.

    A dispatcher renews its leases every third of a lease. So a lease survives an outage of up to a third of a lease.
    After a longer outage, and after its own start, a process reclaims nothing for the length of a lease. It counts from
    when the database accepted its writes, so also while it was a candidate.
    """

    def __init__(self, lease: float, interval: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Times are in seconds. `interval` is the time between two sweeps, each of which writes."""
        self._lease = lease
        self._max_silence = max(lease / 3, 2 * interval)
        self._clock = clock
        self._written_at = float("-inf")
        self._began_at = float("-inf")

    def note_write(self) -> None:
        """Record that the database has just accepted a write."""
        now = self._clock()
        if now - self._written_at > self._max_silence:
            self._began_at = now
            log.info("sweeper.grace_started", seconds=self._lease)
        self._written_at = now

    @property
    def is_over(self) -> bool:
        now = self._clock()
        return now - self._written_at <= self._max_silence and now - self._began_at >= self._lease


class LapsedLeases:
    """Finds jobs whose lease has lapsed, and was not renewed for half of its length by this process's own clock.

    A dispatcher that lives renews in that time. Its leases lapse all the same when the database's clock is set forward,
    and that of a job whose row was locked. Leases are watched once they are half over, so this delays nothing else.
    """

    def __init__(
        self, database: Executor, grace: LeaseGrace, lease: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`lease` is in seconds."""
        self._database = database
        self._grace = grace
        self._patience = lease / 2
        self._clock = clock
        self._seen_at: dict[Lease, float] = {}

    async def find(self, limit: int) -> LostJobs:
        """Return up to `limit` jobs, those whose lease lapsed first at the beginning."""
        overdue = await find_overdue(self._database, self._patience, WATCHED)
        now = self._clock()
        self._seen_at = {lease: self._seen_at.get(lease, now) for lease in overdue}
        ripe = [lease.job_id for lease, seen_at in self._seen_at.items() if now - seen_at >= self._patience]
        found = await find_abandoned(self._database, ripe, limit) if ripe else []
        return found if self._grace.is_over else []  # checked after the queries, which may have hung for long
