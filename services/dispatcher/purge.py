"""Removes what is older than its retention, in small bites."""

import asyncio

from common.errors import Unavailable
from common.logs import Log
from services.dispatcher.store import Store

BATCH = 200
BITE_SECONDS = 0.2  # between two batches, so that submits hardly notice
REST_SECONDS = 30.0  # when there is nothing to remove

log = Log("purge")


async def purge(store: Store, retention: float) -> None:
    """Removes jobs that ended more than `retention` seconds ago, until cancelled. Any instance does it."""
    while True:
        removed = 0
        try:
            removed = await store.purge_jobs(retention, BATCH)
        except Unavailable as error:
            log.warning("purge.waits", error=error)
        if removed:
            log.info("jobs.purged", count=removed)
        await asyncio.sleep(BITE_SECONDS if removed == BATCH else REST_SECONDS)
