"""Removes what no delivery needs any more."""

import asyncio

from common.database import Database
from common.errors import Unavailable
from common.logs import Log
from services.notifier.store import QUERIES

BATCH = 200
BITE_SECONDS = 0.5  # between two batches
REST_SECONDS = 60.0  # when little is left

log = Log("tidy")


async def tidy(database: Database, retention: float) -> None:
    """Removes operational events and recoveries older than `retention` (seconds), secrets that no longer sign and
    endpoints that nothing goes to, until cancelled. Any instance does it."""
    while True:
        removed = []
        try:
            removed = [
                await purge(database, "purge_events", retention, BATCH),
                await purge(database, "purge_recoveries", retention, BATCH),
                await purge(database, "purge_secrets"),
                await purge(database, "purge_endpoints", BATCH),
            ]
        except Unavailable as error:
            log.warning("tidy.waits", error=error)
        if any(removed):
            log.info("tidy.removed", count=sum(removed))
        await asyncio.sleep(BITE_SECONDS if max(removed, default=0) >= BATCH else REST_SECONDS)


async def purge(database: Database, query: str, *values: object) -> int:
    return len(await database.fetch(QUERIES[query], *values))
