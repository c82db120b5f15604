"""Moves due times back when the database's clock is set back; otherwise they would come too late.

A clock that is set forward makes deliveries due early, each of them once. That needs no correction.
"""

import asyncio
from collections.abc import Callable

from common.postgres.database import Database
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.notifier.store.clock import measure_clock_setback, move_due_times_back
from services.notifier.store.endpoints import lock_all_endpoints

TICK_SECONDS = 2.0
TOLERANCE_SECONDS = 5.0  # another server after a failover has a slightly different clock
CORRECTION_SECONDS = 300.0  # for moving all due times

log = Log("clock")


async def watch_clock(database: Database, wake: Callable[[], None], *, lease: float) -> None:
    """Correct due times until cancelled. One notifier at a time corrects.

    `lease` is the longest lease of a claim, in seconds.
    """
    outage = Outage()
    while True:
        with outage.tolerate("clock.database_unavailable", log):
            if setback := await correct_clock(database, lease):
                log.warning("clock.set_back", seconds=round(setback))
                wake()
        await asyncio.sleep(TICK_SECONDS)


async def correct_clock(database: Database, lease: float) -> float | None:
    """Return the seconds the clock was set back since any notifier checked it; None within the tolerance."""
    async with database.transaction(CORRECTION_SECONDS) as connection:
        setback = await measure_clock_setback(connection)
        if setback <= TOLERANCE_SECONDS:
            return None
        await lock_all_endpoints(connection, CORRECTION_SECONDS)
        await move_due_times_back(connection, setback, lease, CORRECTION_SECONDS)
        return setback
