"""Finds groups that nobody settles: after kills, lost answers, cancels, and ends by the release before."""

import asyncio
from collections.abc import Callable

from common.jobs.take_results import find_groups
from common.postgres.database import Database
from common.postgres.leadership import Leadership, LeaseStore, Loops, need_nothing
from common.reuse.key import FIRST
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.results.unsettled_keys import UnsettledKeys

ROLE = "reuse"  # of its own: a process of the release before may lead the maintenance
BATCH = 500  # groups
PAUSE_FACTOR = 3  # times as long as the search took: it takes a quarter of a session's time at most

log = Log("reuse")


class ReuseSweeper:
    """Looks at all groups at intervals."""

    def __init__(self, database: Database, unsettled: UnsettledKeys, interval: float) -> None:
        """`interval` is in seconds."""
        self._database = database
        self._unsettled = unsettled
        self._interval = interval
        self._after = FIRST

    async def run(self) -> None:
        """Sweep until cancelled."""
        outage = Outage()
        while True:
            pause = self._interval
            with outage.tolerate("reuse.database_unavailable", log):
                pause = await self.sweep()
            await asyncio.sleep(pause)

    async def sweep(self) -> float:
        """Note the next groups that have no twin which may still succeed. Return for how many seconds to pause."""
        clock = asyncio.get_running_loop().time
        began = clock()
        groups = await find_groups(self._database, self._after, BATCH)
        seconds = PAUSE_FACTOR * (clock() - began)
        is_last = len(groups) < BATCH
        self._after = FIRST if is_last else groups[-1].key
        self._unsettled.note(group.key for group in groups if not group.is_live)
        return max(self._interval, seconds) if is_last else seconds


def make_leadership(
    database: Database, unsettled: UnsettledKeys, interval: float, is_fit: Callable[[], bool] = need_nothing
) -> Leadership:
    """Return what sweeps while this process is the elected one. `is_fit`: whether it can send wake-ups."""

    def begin() -> Loops:
        return {"groups": ReuseSweeper(database, unsettled, interval).run}

    return Leadership(LeaseStore(database, ROLE), begin, is_fit=is_fit)
