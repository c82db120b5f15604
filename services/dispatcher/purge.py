"""Removes what is older than its retention, in small bites."""

import asyncio
import time

from common.errors import Unavailable
from common.logs import Log
from services.dispatcher import metrics
from services.dispatcher.store import OLDEST, Store

BATCH = 200
SHARE = 5  # of one connection's time at most a fifth, so that submits hardly notice, however slow the database is
KEYS_SECONDS = 0.1  # between two bites of idempotency keys, which are a row each
REST_SECONDS = 30.0  # after a pass over all that is old enough

log = Log("purge")


async def purge(store: Store, retention: float) -> None:
    """Removes jobs that ended more than `retention` seconds ago, and idempotency keys past their day, pass after pass,
    until cancelled.

    Any instance does it; they leave each other's rows alone. What can't be removed yet is looked at once in a pass.
    """
    while True:
        try:
            if removed := await sweep(store, retention):
                log.info("jobs.purged", count=removed)
            await sweep_keys(store)
        except Unavailable as error:
            log.warning("purge.waits", error=error)
        await asyncio.sleep(REST_SECONDS)


async def sweep(store: Store, retention: float) -> int:
    """One pass, from the oldest on; how many jobs were removed."""
    mark, removed = OLDEST, 0
    while True:
        began = time.monotonic()
        bite = await store.purge_jobs(retention, BATCH, mark)
        mark, removed = bite.last, removed + bite.removed
        metrics.jobs_purged.inc(bite.removed)
        if bite.seen < BATCH:
            return removed
        await asyncio.sleep((time.monotonic() - began) * (SHARE - 1))


async def sweep_keys(store: Store) -> None:
    while True:
        if await store.purge_keys(BATCH) < BATCH:
            return
        await asyncio.sleep(KEYS_SECONDS)
