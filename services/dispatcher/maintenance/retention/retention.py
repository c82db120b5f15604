"""Removes jobs, batches, keys and audit entries that are older than their retention, in small batches."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from common.jobs import remove
from common.jobs.remove import OLDEST
from common.postgres.statements import Executor
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher import metrics
from services.dispatcher.maintenance.retention.store import RetentionStore

BATCH = 200
BATCH_ITEMS = 2000  # of batches; each is a row. A single batch may have five times as many
SHARE = 5  # use at most a fifth of one connection's time, so that submits hardly slow down
PAUSE_SECONDS = 0.1  # between two batches of keys, audit entries or batches with their items
REST_SECONDS = 30.0  # between two passes

log = Log("retention")


async def run(database: Executor, store: RetentionStore, retention: float, audit_retention: float) -> None:
    """Remove what ended more than `retention` seconds ago, pass after pass, until cancelled.

    Entries of the audit log go after `audit_retention` seconds.

    Two instances skip each other's rows. A pass examines each row once, even if it must stay.
    """
    outage = Outage()
    while True:
        with outage.tolerate("retention.database_unavailable", log):
            if removed := await remove_old_jobs(database, retention):
                log.info("jobs.removed", count=removed)
            await repeat(partial(store.remove_keys, BATCH), BATCH)
            await repeat(partial(store.remove_expired_api_keys, BATCH), BATCH)
            await repeat(partial(store.remove_audit_log, audit_retention, BATCH), BATCH)
            await repeat(partial(store.remove_batches, retention, BATCH, BATCH_ITEMS), 1)
        await asyncio.sleep(REST_SECONDS)


async def remove_old_jobs(database: Executor, retention: float) -> int:
    """Make one pass, oldest jobs first. Return how many jobs were removed."""
    after, removed = OLDEST, 0
    while True:
        began = time.monotonic()
        batch = await remove.remove_old_jobs(database, retention, BATCH, after)
        after, removed = batch.last, removed + batch.removed
        metrics.jobs_removed.inc(batch.removed)
        if batch.examined < BATCH:
            return removed
        await asyncio.sleep((time.monotonic() - began) * (SHARE - 1))


async def repeat(remove: Callable[[], Awaitable[int]], full: int) -> None:
    """Remove batch after batch, while they have at least `full` rows."""
    while True:
        if await remove() < full:
            return
        await asyncio.sleep(PAUSE_SECONDS)
