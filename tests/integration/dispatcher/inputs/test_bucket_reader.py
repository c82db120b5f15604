"""Inputs are read from buckets on a real S3 server."""

import io
import uuid
from collections.abc import Iterator
from uuid import UUID

import pytest

from common.job_states import Failure
from common.locations.allowed import AllowedLocations
from common.locations.buckets import Buckets
from common.locations.location import Location
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.tensors import Datatype, ObjectContent, Tensor
from services.dispatcher.inputs.bucket_reader import BucketReader
from services.dispatcher.triton.errors import InferenceError
from services.gateway.commands.locations.store import LocationStore
from tests.integration.common.object_store.streams import stream
from tests.support.s3.server import S3

DEADLINE = 10.0
FROZEN_DEADLINE = 1.0  # of a reader that asks a server that does not answer


@pytest.fixture
def bucket(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A new bucket of a tenant."""
    name = f"tenant-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(name)
    for variable, value in s3.environment.items():
        monkeypatch.setenv(variable, value)
    yield name
    s3.thaw()


@pytest.fixture
def reader(database: Database) -> BucketReader:
    return BucketReader(AllowedLocations(database, "file:///store"), Buckets(DEADLINE))


async def put(bucket: str, key: str, content: bytes) -> None:
    store = ObjectStore(f"s3://{bucket}")
    await store.put(key, stream(content))
    store.close()


async def fail(reader: BucketReader, content: ObjectContent) -> Failure:
    with pytest.raises(InferenceError) as caught:
        await reader.read("x", content, io.BytesIO())
    assert not caught.value.refused
    return caught.value.failure


async def test_an_object_is_read_from_its_offset(reader: BucketReader, bucket: str) -> None:
    await put(bucket, "a b/größe", b"header-content")
    request = io.BytesIO()
    await reader.read("x", ObjectContent(bucket, "a b/größe", 7, 7), request)
    assert request.getvalue() == b"content"


async def test_each_way_to_get_no_object_has_its_code(
    reader: BucketReader, bucket: str, s3: S3, database: Database
) -> None:
    await put(bucket, "key", b"content")
    codes = {}
    for name, content in {
        "longer": ObjectContent(bucket, "key", 0, 8),
        "cut": ObjectContent(bucket, "key", 100, 8),
        "missing": ObjectContent(bucket, "other", 0, 8),
    }.items():
        codes[name] = (await fail(reader, content)).code
    assert codes == dict.fromkeys(codes, "input_missing")
    s3.archive(bucket, "archived")
    assert (await fail(reader, ObjectContent(bucket, "archived", 0, 0))).code == "input_location_refused"
    s3.freeze()
    hasty = BucketReader(AllowedLocations(database, "file:///store"), Buckets(FROZEN_DEADLINE))
    away = await fail(hasty, ObjectContent(bucket, "key", 0, 7))
    assert (away.code, away.retryable) == ("input_location_failed", True)
    assert away.message == f"input 'x': the bucket of s3://{bucket}/key does not answer"


async def test_only_what_is_allowed_now_is_read(reader: BucketReader, database: Database, tenant: UUID) -> None:
    inputs = [Tensor("x", Datatype.BYTES, [1], ObjectContent("bucket", "in/key", 0, 8))]
    with pytest.raises(InferenceError) as caught:
        await reader.check(tenant, inputs)
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("input_location_refused", False)
    await LocationStore(database).allow(tenant, Location("bucket", "in/"), read=True, write=False)
    await reader.check(tenant, inputs)
