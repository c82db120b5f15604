"""Removes batches, keys and audit entries that are older than their retention, in small batches."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.maintenance.retention.store import RetentionStore

BATCH = 200
BATCH_ITEMS = 2000  # of batches; each is a row. A single batch may have five times as many
PAUSE_SECONDS = 0.1  # between two batches of keys, audit entries or batches with their items
REST_SECONDS = 30.0  # between two passes

log = Log("retention")


async def run(store: RetentionStore, retention: float, audit_retention: float) -> None:
    """Remove batches that ended more than `retention` seconds ago and have no jobs left, until cancelled.

    Entries of the audit log go after `audit_retention` seconds.

    Two instances skip each other's rows.
    """
    outage = Outage()
    while True:
        with outage.tolerate("retention.database_unavailable", log):
            await repeat(partial(store.remove_keys, BATCH), BATCH)
            await repeat(partial(store.remove_expired_api_keys, BATCH), BATCH)
            await repeat(partial(store.remove_audit_log, audit_retention, BATCH), BATCH)
            await repeat(partial(store.remove_batches, retention, BATCH, BATCH_ITEMS), 1)
        await asyncio.sleep(REST_SECONDS)


async def repeat(remove: Callable[[], Awaitable[int]], full: int) -> None:
    """Remove batch after batch, while they have at least `full` rows."""
    while True:
        if await remove() < full:
            return
        await asyncio.sleep(PAUSE_SECONDS)
