"""Objects are stored whole, read in ranges, listed and deleted, in a local folder and on S3."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from common.errors import StoreNotFound, StoreRangeInvalid
from common.object_store import store as module
from common.object_store.keys import file_key
from common.object_store.store import PART, PIECE, ObjectStore
from tests.integration.common.object_store.conftest import Place
from tests.integration.common.object_store.streams import list_keys, make_bytes, read_all, stream

KEY = file_key(uuid4(), uuid4())
SIZES = [0, 1, PIECE, PART, PART + 1, 3 * PART + PIECE + 7]


@pytest.mark.parametrize("size", SIZES)
async def test_a_stream_is_stored_with_its_size_and_digest(store: ObjectStore, size: int) -> None:
    content = make_bytes(size)
    stored = await store.put(KEY, stream(content))
    assert (stored.size, stored.sha256) == (size, hashlib.sha256(content).digest())
    assert await read_all(store, KEY) == content
    found = await store.head(KEY)
    assert (found.key, found.size) == (KEY, size)
    assert abs(datetime.now(UTC) - found.modified) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 1), (5, 11), (PIECE - 1, PIECE + 1), (PIECE, 2 * PIECE), (PART - 3, None), (PART, PART + 10**9)],
)
async def test_a_range_is_read(store: ObjectStore, start: int, end: int | None) -> None:
    content = make_bytes(PART + 5)
    await store.put(KEY, stream(content))
    reader = await store.read(KEY, start, end)
    assert reader.size == len(content)
    assert b"".join([piece async for piece in reader.pieces]) == content[start:end]


@pytest.mark.parametrize(("start", "end"), [(5, None), (5, 6), (2, 2)])
async def test_a_range_outside_of_the_object_is_refused(store: ObjectStore, start: int, end: int | None) -> None:
    await store.put(KEY, stream(b"12345"))
    with pytest.raises(StoreRangeInvalid):
        await store.read(KEY, start, end)


async def test_a_missing_object_is_named(store: ObjectStore) -> None:
    with pytest.raises(StoreNotFound):
        await store.read(KEY)
    with pytest.raises(StoreNotFound):
        await store.head(KEY)


async def test_objects_are_deleted_whether_they_are_there_or_not(store: ObjectStore, place: Place) -> None:
    keys = [file_key(uuid4(), uuid4()) for _ in range(30)]
    for key in keys[1::2]:
        await store.put(key, stream(b"x"))
    await store.delete(keys)
    assert place.list_everything() == []  # no empty folder either
    await store.delete(keys)
    await store.delete([])


async def test_objects_are_listed_in_pages(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    keys = sorted(file_key(uuid4(), uuid4()) for _ in range(5))
    for key in keys:
        await store.put(key, stream(b"123"))
    pages = [page async for page in store.list_pages()]
    assert max(map(len, pages)) <= 2
    assert sorted((found.key, found.size) for page in pages for found in page) == [(key, 3) for key in keys]


async def test_nobody_sees_an_object_before_it_is_whole(store: ObjectStore) -> None:
    sent, go_on = asyncio.Event(), asyncio.Event()
    content = make_bytes(2 * PART + 10)

    async def pausing() -> AsyncIterator[bytes]:
        yield content[: PART + 5]
        sent.set()
        await go_on.wait()
        yield content[PART + 5 :]

    putting = asyncio.create_task(store.put(KEY, pausing()))
    await asyncio.wait_for(sent.wait(), 10)
    assert await list_keys(store) == []
    with pytest.raises(StoreNotFound):
        await store.read(KEY)
    go_on.set()
    await putting
    assert await read_all(store, KEY) == content


async def test_a_put_whose_source_fails_leaves_nothing(store: ObjectStore, place: Place) -> None:
    async def breaking() -> AsyncIterator[bytes]:
        yield make_bytes(2 * PART + 10)
        raise ConnectionResetError("the client went away")

    with pytest.raises(ConnectionResetError, match="the client went away"):
        await store.put(KEY, breaking())
    assert [path for path in place.list_everything() if KEY in path] == []


@pytest.mark.parametrize("again", [False, True])
async def test_a_put_that_is_cancelled_leaves_nothing(store: ObjectStore, place: Place, again: bool) -> None:
    sent = asyncio.Event()

    async def waiting() -> AsyncIterator[bytes]:
        yield make_bytes(2 * PART + 10)
        sent.set()
        await asyncio.Event().wait()

    putting = asyncio.create_task(store.put(KEY, waiting()))
    await asyncio.wait_for(sent.wait(), 10)
    putting.cancel()
    if again:
        await asyncio.sleep(0)
        putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    await asyncio.gather(*store._undoing)
    assert [path for path in place.list_everything() if KEY in path] == []


async def test_a_store_that_answers_is_healthy(store: ObjectStore) -> None:
    await store.check()
