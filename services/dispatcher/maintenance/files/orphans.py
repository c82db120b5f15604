"""Deletes orphans: objects in the places of files that no row knows, so that no quota counts them.

A slow PUT to a presigned URL leaves one, if it ends after the sweep of its row. So does a service that froze while it
stored a file, and is killed afterwards.

The pass also finds files that were replaced after the check of their size, which files.py makes.

Objects are listed tenant by tenant, a page at a time. How far the pass is lies in the database, so a new leader goes
on. A bucket may be shared: only the folders of this database's tenants are read.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

from common import ids
from common.object_store.keys import parse_file_key
from common.object_store.store import ObjectInfo, ObjectStore
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.maintenance.files.store import UnneededFileStore

MIN_AGE = timedelta(hours=1)  # its row is older than an object, but clocks may differ
PASS_SECONDS = 3600.0  # from the begin of a pass to that of the next
PAGE_SECONDS = 1.0  # between two pages; so a store with 10 million files takes three hours
REST_SECONDS = 60.0
SHOWN = 10

log = Log("files")


async def run(store: UnneededFileStore, objects: ObjectStore) -> None:
    """Delete orphans, pass after pass, until cancelled."""
    outage = Outage()
    while True:
        pause = REST_SECONDS
        with outage.tolerate("files.orphan_sweep_failed", log):
            if await sweep_tenant(store, objects, MIN_AGE) or await store.begin_pass(PASS_SECONDS):
                pause = PAGE_SECONDS
        await asyncio.sleep(pause)


async def sweep_tenant(store: UnneededFileStore, objects: ObjectStore, min_age: timedelta) -> bool:
    """Delete the orphans of the next tenant that are older than `min_age`. Return False at the end of the pass."""
    tenant_id = await store.find_tenant()
    if tenant_id is None:
        return False
    async with aclosing(objects.list_pages(f"{tenant_id}/")) as pages:
        async for page in pages:
            before = datetime.now(UTC) - min_age
            old = [each for each in page if each.modified <= before]
            await delete_orphans(store, objects, old)
            await store.check_again({parsed[1]: each.size for each in old if (parsed := parse_file_key(each.key))})
            await asyncio.sleep(PAGE_SECONDS)
    await store.save_tenant(tenant_id)
    return True


async def delete_orphans(store: UnneededFileStore, objects: ObjectStore, page: Sequence[ObjectInfo]) -> None:
    """Delete those of the objects that are in the place of a file without a row. Raises Unavailable."""
    files = {each.key: parsed[1] for each in page if (parsed := parse_file_key(each.key)) is not None}
    known = await store.find_known([*files.values()])
    orphans = {each.key: each.size for each in page if each.key in files.keys() - known}
    if not orphans:
        return
    failed = await objects.delete_each([*orphans])
    for key, error in failed.items():
        log.warning("files.not_deleted", file_id=ids.encode(ids.Kind.FILE, files[key]), error=error)
    if deleted := [key for key in orphans if key not in failed]:
        shown = [ids.encode(ids.Kind.FILE, files[key]) for key in deleted[:SHOWN]]
        size = sum(orphans[key] for key in deleted)
        log.warning("files.orphans_deleted", count=len(deleted), bytes=size, first=shown)
