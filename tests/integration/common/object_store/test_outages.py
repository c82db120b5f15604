"""An outage or a wrong setting of the store is an error with a name, within the deadline."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from common.errors import StoreDenied, StoreNotFound, StoreUnavailable
from common.object_store.keys import file_key
from common.object_store.store import PART, ObjectStore
from tests.integration.common.object_store.conftest import Place
from tests.integration.common.object_store.streams import list_keys, make_bytes, read_all, stream
from tests.support.s3.server import S3

KEY = file_key(uuid4(), uuid4())
HASTY = 0.5  # seconds; for a store that answers no call
DEADLINE = 2.0
PATIENT = 8.0  # seconds; for a store that also answers calls of the same test
SOON = 20.0  # seconds; a deadline or two, and what a busy machine adds
Call = Callable[[ObjectStore], Awaitable[object]]
CALLS: dict[str, Call] = {
    "put": lambda store: store.put(KEY, stream(b"123")),
    "large put": lambda store: store.put(KEY, stream(make_bytes(2 * PART))),
    "read": lambda store: store.read(KEY),
    "head": lambda store: store.head(KEY),
    "delete": lambda store: store.delete([KEY]),
    "list": list_keys,
    "check": lambda store: store.check(),
}


@pytest.fixture
def thawed(s3: S3) -> Iterator[S3]:
    """Has the server answer again after a test."""
    yield s3
    s3.thaw()
    s3.start()


async def test_a_wrong_secret_is_denied(bucket: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    store = ObjectStore(bucket.url)
    for call in CALLS.values():
        with pytest.raises(StoreDenied, match=r"Check .*AWS_SECRET_ACCESS_KEY"):
            await call(store)


async def test_a_missing_bucket_is_denied(bucket: Place) -> None:
    store = ObjectStore("s3://not-there/prefix")
    for call in [call for name, call in CALLS.items() if name != "head"]:
        with pytest.raises(StoreDenied, match=r"\(NoSuchBucket\). Check .*bucket in CHARONIA_STORE_URL"):
            await call(store)


async def test_a_missing_folder_is_denied(folder: Place, tmp_path: Path) -> None:
    store = ObjectStore(folder.url)
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreDenied, match=r"missing or not writable\. Check .*CHARONIA_STORE_URL"):
        await store.check()


@pytest.mark.parametrize("fault", [S3.kill, S3.freeze])
async def test_a_store_that_refuses_connections_or_hangs_is_unavailable(
    thawed: S3, bucket: Place, fault: Callable[[S3], None]
) -> None:
    fault(thawed)
    store = ObjectStore(bucket.url, HASTY)
    async with asyncio.timeout(SOON):
        errors = await asyncio.gather(*(call(store) for call in CALLS.values()), return_exceptions=True)
    assert {name: type(error) for name, error in zip(CALLS, errors, strict=True)} == dict.fromkeys(
        CALLS, StoreUnavailable
    )


async def test_a_store_that_comes_back_is_used_again(thawed: S3, bucket: Place) -> None:
    store = ObjectStore(bucket.url, PATIENT)
    await store.put(KEY, stream(b"123"))
    thawed.kill()
    with pytest.raises(StoreUnavailable):
        await store.check()
    thawed.start()
    assert await read_all(store, KEY) == b"123"


async def test_a_store_that_goes_away_ends_a_put(thawed: S3, bucket: Place) -> None:
    store = ObjectStore(bucket.url, DEADLINE)

    async def outliving() -> AsyncIterator[bytes]:
        yield make_bytes(2 * PART)
        thawed.kill()
        while True:
            yield make_bytes(PART)

    with pytest.raises(StoreUnavailable):
        await store.put(KEY, outliving())
    thawed.start()
    with pytest.raises(StoreNotFound):
        await ObjectStore(bucket.url).head(KEY)


async def test_a_read_goes_on_after_its_connection_broke(thawed: S3, bucket: Place) -> None:
    store = ObjectStore(bucket.url)
    content = make_bytes(8 * PART)
    await store.put(KEY, stream(content))
    reader = await store.read(KEY)
    pieces = [await anext(reader.pieces)]
    thawed.kill()
    thawed.start()
    pieces += [piece async for piece in reader.pieces]
    assert b"".join(pieces) == content


async def test_a_store_that_goes_away_ends_a_read(thawed: S3, bucket: Place) -> None:
    store = ObjectStore(bucket.url, PATIENT)
    await store.put(KEY, stream(make_bytes(8 * PART)))
    reader = await store.read(KEY)
    await anext(reader.pieces)
    thawed.freeze()
    store._deadline = HASTY
    with pytest.raises(StoreUnavailable):
        [piece async for piece in reader.pieces]
