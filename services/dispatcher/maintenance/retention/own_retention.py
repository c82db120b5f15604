"""Removes ended jobs whose retention, or whose tenant's, is shorter than that of all jobs."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher import metrics
from services.dispatcher.maintenance.retention.retention import BATCH, BATCH_ITEMS, REST_SECONDS
from services.dispatcher.maintenance.retention.store import FIRST, EndedJob, JobCursor, RetentionStore

SHARE = 5  # use at most a fifth of one connection's time, so that submits hardly slow down
FindJobs = Callable[[JobCursor, int], Awaitable[list[EndedJob]]]

log = Log("retention")


async def run(store: RetentionStore) -> None:
    """Remove jobs pass after pass, until cancelled. Two instances skip each other's rows."""
    outage = Outage()
    while True:
        with outage.tolerate("retention.database_unavailable", log):
            if removed := await remove_retained(store):
                log.info("jobs.removed", count=removed)
        await asyncio.sleep(REST_SECONDS)


async def remove_retained(store: RetentionStore) -> int:
    """Make one pass. Return how many jobs were removed."""
    removed = await remove_pages(store, store.find_retained)
    for tenant, retention in await store.find_tenants():
        removed += await remove_pages(store, partial(store.find_of_tenant, tenant, retention))
    return removed


async def remove_pages(store: RetentionStore, find: FindJobs) -> int:
    """Examine all jobs that `find` finds, each once. Return how many were removed."""
    after, removed = FIRST, 0
    while True:
        began = time.monotonic()
        found = await find(after, BATCH)
        if found:
            gone = await store.remove(found, BATCH_ITEMS)
            removed += gone
            metrics.jobs_removed.inc(gone)
        if len(found) < BATCH:
            return removed
        after = JobCursor(found[-1].at, found[-1].id)
        await asyncio.sleep((time.monotonic() - began) * (SHARE - 1))
