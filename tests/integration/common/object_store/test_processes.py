"""The store between processes: what one stores another reads, memory stays flat, and a kill leaves nothing visible."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from datetime import timedelta
from uuid import uuid4

from common.errors import StoreNotFound
from common.object_store.keys import file_key
from common.object_store.store import ObjectStore
from deploy.local.settings import ROOT
from tests.integration.common.object_store.conftest import Place
from tests.integration.common.object_store.streams import list_keys
from tests.support.waiting import eventually

KEY = file_key(uuid4(), uuid4())
MIB = 1024 * 1024
SIZE = 128 * MIB
MOST_GROWTH = 64 * MIB
CHILD = """
import asyncio, os, sys
from pathlib import Path
from common.object_store.store import ObjectStore

PART = 64 * 1024

def measure_peak():
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024

async def parts(size, pause):
    for first in range(0, size, PART):
        if pause and first == pause:
            print("paused", flush=True)
            await asyncio.Event().wait()
        yield os.urandom(PART)

async def main(url, key, size, pause):
    store = ObjectStore(url)
    await store.check()
    before = measure_peak()
    await store.put(key, parts(size, pause))
    stored = measure_peak()
    read = sum([len(piece) async for piece in (await store.read(key)).pieces])
    print(stored - before, measure_peak() - before, read, flush=True)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
"""


async def start_child(place: Place, size: int, pause: int = 0) -> Process:
    arguments = [sys.executable, "-c", CHILD, place.url, KEY, str(size), str(pause)]
    return await asyncio.create_subprocess_exec(*arguments, cwd=ROOT, env=dict(os.environ), stdout=PIPE)


async def test_memory_stays_flat(place: Place) -> None:
    output, _ = await asyncio.wait_for((await start_child(place, SIZE)).communicate(), 120)
    put_growth, growth, read = map(int, output.split())
    assert read == SIZE
    assert max(put_growth, growth) < MOST_GROWTH


async def test_another_process_reads_the_whole_object_or_none(store: ObjectStore, place: Place) -> None:
    child = await start_child(place, 32 * MIB)
    sizes: set[int] = set()

    async def ended() -> bool | None:
        try:
            sizes.add((await store.head(KEY)).size)
        except StoreNotFound:
            return None
        return True

    await eventually(ended, "the child stores the object", within=60)
    await child.communicate()
    assert sizes == {32 * MIB}


async def test_a_killed_process_leaves_nothing_that_is_seen_in_a_bucket(bucket: Place) -> None:
    store = ObjectStore(bucket.url)
    child = await start_child(bucket, 32 * MIB, pause=20 * MIB)
    assert child.stdout is not None
    assert await asyncio.wait_for(child.stdout.readline(), 60) == b"paused\n"
    child.kill()
    await child.wait()
    assert await list_keys(store) == []
    assert len([path for path in bucket.list_everything() if KEY in path]) == 1  # its unfinished upload


async def test_what_a_killed_process_left_in_a_folder_is_deleted(folder: Place) -> None:
    store = ObjectStore(folder.url)
    child = await start_child(folder, 32 * MIB, pause=20 * MIB)
    assert child.stdout is not None
    assert await asyncio.wait_for(child.stdout.readline(), 60) == b"paused\n"
    assert await store.delete_unfinished(timedelta(hours=1)) == 0  # it still makes progress
    child.kill()
    await child.wait()
    assert await list_keys(store) == []
    assert await store.delete_unfinished(timedelta(0)) == 1
    assert [path for path in folder.list_everything() if KEY in path] == []
