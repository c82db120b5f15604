"""Deletes rows that no delivery needs."""

import asyncio

from common.postgres.database import Database
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.notifier.cleanup import store

BATCH = 200
PAUSE_SECONDS = 0.5  # between two full batches
IDLE_SECONDS = 60.0  # when little is left

log = Log("cleanup")


async def run_cleanup(database: Database, retention: float) -> None:
    """Delete old rows in batches until cancelled.

    Recoveries are kept for `retention` seconds. Expired secrets and unused
    endpoints are not kept.
    """
    outage = Outage()
    while True:
        deleted = []
        with outage.tolerate("cleanup.database_unavailable", log):
            deleted = [
                await store.delete_old_recoveries(database, retention, BATCH),
                await store.delete_expired_secrets(database),
                await store.delete_unused_endpoints(database, BATCH),
            ]
        if any(deleted):
            log.info("cleanup.deleted", count=sum(deleted))
        await asyncio.sleep(PAUSE_SECONDS if max(deleted, default=0) >= BATCH else IDLE_SECONDS)
