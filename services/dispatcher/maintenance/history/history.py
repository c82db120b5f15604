"""Removes history that is older than its retention, a whole generation at a time.

A generation takes a sixth of the retention. So a row stays for the retention, and for a sixth longer at most, unless a
long transaction reads the table. Of eight generations one is current, six are kept, and one is about to be emptied.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from uuid import UUID

from common.postgres.database import TRANSACTION_SECONDS
from common.reuse.key import FIRST
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.maintenance.history.store import NIL, HistoryStore, Page

GENERATIONS = 8
KEPT = 6  # besides the current one, and one that is empty
BATCH = 1000
RUNS = 20  # in place of a batch: a run may have 10,000 jobs
PAUSE_SECONDS = 0.05  # between two batches
MIN_REST_SECONDS, MAX_REST_SECONDS = 1.0, 30.0  # between two looks

log = Log("history")


async def run(store: HistoryStore, retention: float) -> None:
    """Keep history for `retention` seconds, until cancelled. Two instances do no harm.

    It is kept for TRANSACTION_SECONDS at least: so long may somebody still add to a generation that has ended.
    """
    retention = max(retention, TRANSACTION_SECONDS)
    outage = Outage()
    released = False  # whether the files of all jobs that are gone are released; not after an outage
    while True:
        complete = False
        with outage.tolerate("history.database_unavailable", log):
            if await sweep(store, retention) or not released:
                await release_files(store)
                await remove_twins(store)
            complete = True
        released = complete
        await asyncio.sleep(min(MAX_REST_SECONDS, max(MIN_REST_SECONDS, retention / KEPT / 4)))


async def sweep(store: HistoryStore, retention: float) -> int:
    """Begin the next generation if it is time, and empty old ones. Return how many were emptied.

    What live jobs have of history goes along, so that it stays as long as they do.
    """
    if (begun := await store.begin_next(retention / KEPT)) is not None:
        await examine_all(partial(store.keep_for_jobs, begun - 1 or GENERATIONS), (NIL,))
    emptied = 0
    for number in await store.find_old(retention):
        await examine_all(partial(store.keep_for_deliveries, number), (NIL,))
        await examine_all(partial(store.keep_for_jobs, number), (NIL,))
        await examine_all(partial(store.keep_for_runs, number), (NIL,), RUNS)
        if await store.empty(number, retention):
            log.info("history.emptied", generation=number)
            emptied += 1
    return emptied


async def release_files(store: HistoryStore) -> None:
    """Let a sweeper delete the files of jobs that are gone."""
    await examine_all(store.release_files, (NIL, NIL))


async def remove_twins(store: HistoryStore) -> None:
    """Remove the twins whose job is gone."""
    after = FIRST
    while (page := await store.remove_twins(after, BATCH)) is not None and page[1] == BATCH:
        after = page[0]
        await asyncio.sleep(PAUSE_SECONDS)


async def examine_all(
    examine: Callable[[tuple[UUID, ...], int], Awaitable[Page]], after: tuple[UUID, ...], limit: int | None = None
) -> None:
    """Examine page after page, each row once."""
    limit = limit or BATCH
    while (page := await examine(after, limit)).examined == limit:
        after = page.last
        await asyncio.sleep(PAUSE_SECONDS)
