"""A request is completed with the contents of files, on a local folder and on S3."""

import asyncio
import struct
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace
from tritonclient.grpc import service_pb2 as pb

from common import ids
from common.errors import StoreUnavailable
from common.locations.allowed import AllowedLocations
from common.locations.buckets import Buckets
from common.object_store.keys import file_key
from common.object_store.pauses import FIRST_SECONDS, Pauses
from common.object_store.reader import ObjectReader
from common.object_store.store import ObjectStore
from common.security.signed_urls import UrlSigner
from common.tensors import Datatype, FileContent, Tensor
from services.dispatcher.inputs import input_reader
from services.dispatcher.inputs.bucket_reader import BucketReader
from services.dispatcher.inputs.input_reader import AWAY, UNREADABLE_SECONDS, InputReader, Unreadable, allow_seconds
from services.dispatcher.inputs.references import FileUrls
from services.dispatcher.triton.errors import InferenceError
from tests.integration.common.object_store.conftest import Place
from tests.integration.common.object_store.streams import make_bytes, stream
from tests.integration.places import BOTH
from tests.support.s3.server import S3
from tests.unit.clock import Clock
from tests.unit.fake_database import FakeDatabase

TENANT = ids.new()
MIB = 1024 * 1024
LONG = 30.0


@pytest.fixture
def thawed(s3: S3) -> Iterator[S3]:
    """Has the server answer again after a test."""
    yield s3
    s3.thaw()


def make_reader(store: ObjectStore, pauses: Pauses | None = None) -> InputReader:
    buckets = BucketReader(AllowedLocations(FakeDatabase(), ""), Buckets(10.0))  # no test reads one
    return InputReader(store, FileUrls(store, UrlSigner(["k" * 32]), "http://gateway:8080"), buckets, pauses)


async def add(store: ObjectStore, content: bytes, offset: int = 0, datatype: Datatype = Datatype.UINT8) -> Tensor:
    """Return a tensor whose content is in a new file, after `offset` bytes."""
    file = ids.new()
    await store.put(file_key(TENANT, file), stream(content))
    size = len(content) - offset
    return Tensor("x", datatype, [size], FileContent(file, offset, size))


def refer(tensor: Tensor) -> Tensor:
    assert isinstance(tensor.data, FileContent)
    return replace(tensor, data=replace(tensor.data, by_reference=True))


async def read(reader: InputReader, *inputs: Tensor, timeout: float = LONG) -> list[bytes]:
    """Return the contents in the message for Triton."""
    head = pb.ModelInferRequest(model_name="echo", id="job_1").SerializeToString()
    message = pb.ModelInferRequest.FromString(await reader.complete(head, TENANT, inputs, timeout))
    assert (message.model_name, message.id) == ("echo", "job_1")
    return [*message.raw_input_contents]


async def refuse(reader: InputReader, *inputs: Tensor, timeout: float = LONG) -> InferenceError:
    with pytest.raises(InferenceError) as caught:
        await read(reader, *inputs, timeout=timeout)
    return caught.value


@BOTH
async def test_contents_come_from_files_and_from_the_job(store: ObjectStore) -> None:
    large, text = make_bytes(3 * MIB + 17), b"text"
    inputs = [
        await add(store, large),
        Tensor("y", Datatype.UINT8, [3], b"abc"),
        await add(store, large, offset=128),
        await add(store, text, datatype=Datatype.BYTES),
        await add(store, b"", datatype=Datatype.BYTES),
        await add(store, b""),
        await add(store, b"header", offset=6),
    ]
    element = struct.pack("<I", len(text)) + text
    assert await read(make_reader(store), *inputs) == [large, b"abc", large[128:], element, bytes(4), b"", b""]


@BOTH
async def test_each_byte_is_held_once(store: ObjectStore) -> None:
    large = await add(store, make_bytes(64 * MIB))
    reader = make_reader(store)
    tracemalloc.start()
    try:
        message = await reader.complete(b"", TENANT, [large], LONG)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(message) > 64 * MIB
    assert most < 1.2 * 64 * MIB + 4 * MIB  # the buffer grows by an eighth at a time


async def test_a_file_that_is_gone_or_changed_fails_the_job_for_good(store: ObjectStore) -> None:
    tensor, reader = await add(store, b"content"), make_reader(store)
    assert isinstance(tensor.data, FileContent)
    file = ids.encode(ids.Kind.FILE, tensor.data.file_id)
    longer = Tensor("x", Datatype.UINT8, [8], FileContent(tensor.data.file_id, 0, 8))
    beyond = Tensor("x", Datatype.UINT8, [8], FileContent(tensor.data.file_id, 100, 8))
    await store.put(file_key(TENANT, other := ids.new()), stream(b""))
    for each in (longer, beyond, Tensor("x", Datatype.UINT8, [1], FileContent(other, 0, 1))):
        assert (await refuse(reader, each)).failure.code == "input_missing"
    await store.delete([file_key(TENANT, tensor.data.file_id)])
    failure = (await refuse(reader, tensor)).failure
    assert (failure.code, failure.retryable) == ("input_missing", False)
    assert failure.message.startswith(f"input 'x': {file} was deleted, or has expired; upload the file again")
    inline = Tensor("x", Datatype.UINT8, [7], FileContent(tensor.data.file_id, 0, 7, inline=True))
    message = (await refuse(reader, inline)).failure.message
    assert (file in message, message.endswith("; submit the job again"), "upload" in message) == (True, True, False)


async def test_a_model_that_takes_a_reference_gets_a_url(store: ObjectStore) -> None:
    tensor = refer(await add(store, b"0123456789", datatype=Datatype.BYTES))
    other = Tensor("y", Datatype.UINT8, [3], b"abc")
    element, unchanged = await read(make_reader(store), tensor, other)
    (length,), url = struct.unpack_from("<I", element), element[4:].decode()
    assert (length, unchanged) == (len(url), b"abc")
    if not url.startswith("http://gateway:8080/v1/files/file_"):
        async with httpx.AsyncClient() as client:
            part = await client.get(url, headers={"Range": "bytes=2-4"})
        assert (part.status_code, part.content) == (206, b"234")


async def test_no_model_gets_the_url_of_a_file_that_is_gone_or_changed(store: ObjectStore) -> None:
    tensor, reader = refer(await add(store, b"content", datatype=Datatype.BYTES)), make_reader(store)
    assert isinstance(tensor.data, FileContent)
    longer = replace(tensor, data=replace(tensor.data, size=8))
    assert (await refuse(reader, longer)).failure.message.startswith("input 'x': ")
    await store.delete([file_key(TENANT, tensor.data.file_id)])
    for each in (tensor, longer):
        assert (await refuse(reader, each)).failure.code == "input_missing"


async def test_no_model_gets_a_url_while_the_store_is_away(thawed: S3, bucket: Place) -> None:
    tensor = refer(await add(ObjectStore(bucket.url), b"content", datatype=Datatype.BYTES))
    thawed.freeze()
    assert (await refuse(make_reader(ObjectStore(bucket.url, deadline=1.0)), tensor)).failure == AWAY


async def test_the_file_of_another_tenant_is_out_of_reach(store: ObjectStore) -> None:
    tensor = await add(store, b"content")
    with pytest.raises(InferenceError, match="was deleted, or has expired"):
        await make_reader(store).complete(b"", ids.new(), [tensor], LONG)


async def test_jobs_are_refused_while_the_store_is_away(thawed: S3, bucket: Place) -> None:
    clock = Clock()
    pauses, store = Pauses(clock), ObjectStore(bucket.url)
    tensor, reader = await add(store, b"content"), make_reader(store, pauses)
    thawed.freeze()
    error = await refuse(make_reader(ObjectStore(bucket.url, deadline=1.0), pauses), tensor)
    assert (error.failure.code, error.refused, error.outage, error.delay) == (
        *("store_unavailable", True, False, FIRST_SECONDS),
    )
    assert isinstance(error.__cause__, Unreadable)
    assert isinstance(error.__cause__.__cause__, StoreUnavailable)
    assert "AWS" not in error.failure.message
    async with asyncio.timeout(15):  # nobody asks the store now, which takes 20 seconds
        assert (await refuse(reader, tensor)).delay == FIRST_SECONDS
    thawed.thaw()
    clock.now += FIRST_SECONDS
    assert await read(reader, tensor) == [b"content"]


@pytest.fixture(params=["folder", "bucket"])
def breaking(request: pytest.FixtureRequest, s3: S3) -> tuple[Place, Callable[[str], None]]:
    """A store, and how to make one of its objects unreadable."""
    place: Place = request.getfixturevalue(request.param)

    def loop(key: str) -> None:
        path = Path(place.url.removeprefix("file://"), key)
        path.unlink()
        path.symlink_to(path)

    def archive(key: str) -> None:
        bucket, _, prefix = place.url.removeprefix("s3://").partition("/")
        s3.archive(bucket, f"{prefix}/{key}")

    return place, loop if request.param == "folder" else archive


async def test_a_broken_object_delays_its_own_jobs_only(
    breaking: tuple[Place, Callable[[str], None]], caplog: pytest.LogCaptureFixture
) -> None:
    place, make_unreadable = breaking
    store = ObjectStore(place.url, deadline=5.0)
    broken, good = await add(store, b"content"), await add(store, b"content")
    assert isinstance(broken.data, FileContent)
    make_unreadable(file_key(TENANT, broken.data.file_id))
    reader = make_reader(store)
    for _ in range(2):
        error = await refuse(reader, broken)
        assert (error.failure.code, error.failure.retryable) == ("input_unreadable", True)
        assert (error.refused, error.outage, error.delay) == (True, False, UNREADABLE_SECONDS)
        assert error.failure.message.startswith(f"input 'x': {ids.encode(ids.Kind.FILE, broken.data.file_id)} cannot")
        assert await read(reader, good) == [b"content"]
    assert caplog.messages == ["inputs.unreadable"] * 2


async def test_credentials_that_are_denied_everything_pause_all_jobs(
    bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = await add(ObjectStore(bucket.url), b"content")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    reader = make_reader(ObjectStore(bucket.url), Pauses(Clock()))
    error = await refuse(reader, tensor)
    assert (error.failure.code, error.delay) == ("store_unavailable", FIRST_SECONDS)


class SlowStore(ObjectStore):
    """Its objects come a byte at a time."""

    async def read(self, key: str, start: int = 0, end: int | None = None) -> ObjectReader:
        return ObjectReader((await self.head(key)).size, self._trickle())

    async def _trickle(self) -> AsyncIterator[bytes]:
        while True:
            yield b"x"
            await asyncio.sleep(0.05)


async def test_a_slow_object_ends_the_attempt_long_before_the_timeout_of_the_job(
    folder: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_reader, "SPARE_SECONDS", 0.2)
    store = SlowStore(folder.url)
    error = await refuse(make_reader(store), await add(store, b"content" * 10))
    assert (error.failure.code, error.failure.retryable, error.refused) == ("input_timeout", True, False)
    assert error.failure.message.endswith("check the object store")


async def test_a_store_that_hangs_is_away_also_when_the_time_for_reading_is_over(
    thawed: S3, bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_reader, "SPARE_SECONDS", 0.2)
    monkeypatch.setattr(input_reader, "CHECK_SECONDS", 0.2)
    store = ObjectStore(bucket.url)
    tensor = await add(store, b"content")
    thawed.freeze()
    assert (await refuse(make_reader(store), tensor)).failure == AWAY


def test_the_time_for_reading_grows_with_the_files() -> None:
    large = Tensor("x", Datatype.UINT8, [1], FileContent(TENANT, 0, 512 * MIB))
    assert allow_seconds([large, Tensor("y", Datatype.UINT8, [3], b"abc")]) == input_reader.SPARE_SECONDS + 512


async def test_reading_ends_with_the_timeout_and_with_a_cancel(thawed: S3, bucket: Place) -> None:
    store = ObjectStore(bucket.url)
    tensor, reader = await add(store, b"content"), make_reader(store)
    thawed.freeze()
    error = await refuse(reader, tensor, timeout=0.2)
    assert (error.failure.code, error.failure.retryable, error.refused) == ("input_timeout", True, False)
    reading = asyncio.create_task(read(reader, tensor))
    done, _ = await asyncio.wait({reading}, timeout=0.2)
    assert not done
    reading.cancel()
    async with asyncio.timeout(10.0):
        with pytest.raises(asyncio.CancelledError):
            await reading
