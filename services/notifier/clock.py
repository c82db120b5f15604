"""What to do when the database's clock is set back: all due times are by it, and would be that much too late.

Set forward it makes things due early, each of them once, which needs nothing.
"""

import asyncio
from collections.abc import Callable

from common.database import Database
from common.errors import Unavailable
from common.logs import Log
from services.notifier.store import QUERIES

TICK_SECONDS = 2.0
TOLERANCE_SECONDS = 5.0  # by which it may go back unnoticed: another server after a failover has another clock
TURN_SECONDS = 300.0  # for moving all that waits

log = Log("clock")


async def watch_clock(database: Database, wake: Callable[[], None], *, lease: float) -> None:
    """Keeps the waits that the database holds as long as they were meant, until cancelled; `lease` (seconds) is the
    longest of a claim. Any instance does it, one at a time."""
    while True:
        try:
            if back := await look(database, lease):
                log.warning("clock.set_back", seconds=round(back))
                wake()
        except Unavailable as error:
            log.warning("clock.waits", error=error)
        await asyncio.sleep(TICK_SECONDS)


async def look(database: Database, lease: float) -> float | None:
    """By how many seconds the clock was set back since the last look of any notifier; None for next to nothing."""
    async with database.transaction(TURN_SECONDS) as connection:
        back: float = await connection.fetchval(QUERIES["see_clock"])
        if back <= TOLERANCE_SECONDS:
            return None
        await connection.execute(QUERIES["lock_all_endpoints"], timeout=TURN_SECONDS)
        await connection.execute(QUERIES["turn_back"], back, lease, timeout=TURN_SECONDS)
        return back
