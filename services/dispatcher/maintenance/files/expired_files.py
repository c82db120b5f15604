"""Deletes files whose time is over: first the content in the object store, then the row.

A deletion is a row until it is done, so it survives a kill at any step.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta

from common import ids
from common.errors import StoreDenied, StoreNotFound
from common.object_store.keys import file_key
from common.object_store.store import ObjectStore
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.maintenance.files.store import UnneededFileStore

BATCH = 100
RETRY_SECONDS = 60.0  # after which another sweeper deletes what this one claimed
REST_SECONDS = 5.0
UNFINISHED = timedelta(hours=1)  # without progress
UNFINISHED_EVERY = 3600.0  # seconds
CHECK_AFTER = 3600.0  # seconds: a PUT that began in time may take longer than its URL is valid

log = Log("files")


async def run(store: UnneededFileStore, objects: ObjectStore) -> None:
    """Delete files, batch after batch, until cancelled."""
    outage, clock = Outage(), asyncio.get_running_loop().time
    cleaned_at = -UNFINISHED_EVERY
    while True:
        with outage.tolerate("files.sweep_failed", log):
            while await sweep(store, objects) == BATCH:
                continue
            if clock() - cleaned_at >= UNFINISHED_EVERY:
                cleaned_at = clock()
                await objects.delete_unfinished(UNFINISHED)
            while await check_sizes(store, objects) == BATCH:
                continue
        await asyncio.sleep(REST_SECONDS)


async def sweep(store: UnneededFileStore, objects: ObjectStore) -> int:
    """Delete a batch of files that no job needs. Return how many there were, needed ones included.

    A file whose content cannot be deleted keeps its row, and is tried again later.
    """
    claimed = await store.claim(BATCH, RETRY_SECONDS)
    files = {file_key(file.tenant_id, file.id): file.id for file in claimed if file.expired}
    if not files:
        return len(claimed)
    failed = await objects.delete_each([*files])
    for key, error in failed.items():
        log.warning("files.not_deleted", file_id=ids.encode(ids.Kind.FILE, files[key]), error=error)
    if deleted := [file for key, file in files.items() if key not in failed]:
        await store.remove(deleted)
        shown = [ids.encode(ids.Kind.FILE, file) for file in deleted[:10]]
        log.info("files.deleted", count=len(deleted), first=shown)
    return len(claimed)


async def check_sizes(store: UnneededFileStore, objects: ObjectStore) -> int:
    """Expire files that a presigned URL replaced by another size, which no quota counted. Return how many it read."""
    files, replaced = await store.list_unchecked(BATCH, CHECK_AFTER), []
    for file in files:
        with suppress(StoreNotFound, StoreDenied):  # nothing is stored. S3 may say denied for missing.
            found = await objects.head(file_key(file.tenant_id, file.id))
            if found.size != file.size:
                replaced.append(file.id)
                shown = ids.encode(ids.Kind.FILE, file.id)
                log.warning("files.replaced", file_id=shown, announced=file.size, found=found.size)
    if files:
        await store.save_checked([file.id for file in files], replaced)
    return len(files)
