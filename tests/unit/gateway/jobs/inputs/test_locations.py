"""What a submit is told about objects in buckets."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from uuid import UUID

import pytest

from common import ids
from common.locations.allowed import AllowedLocations, Use
from common.locations.buckets import HOST_VARIABLE, Buckets
from common.locations.location import Location
from common.object_store.store import ObjectInfo, ObjectStore
from services.gateway.http.problems import Problem
from services.gateway.jobs.inputs.locations import InputLocations
from services.gateway.jobs.inputs.references import KnownFile
from tests.unit.fake_database import FakeDatabase

TENANT = ids.new()
OBJECT = Location("scans", "in/x")


class EverythingAllowed(AllowedLocations):
    """All but Charonia's own store."""

    async def find(self, _tenant_id: UUID, locations: Collection[Location], _use: Use) -> set[Location]:
        return {each for each in locations if not self.is_own(each)}


def open_locations(buckets: Buckets) -> InputLocations:
    return InputLocations(EverythingAllowed(FakeDatabase(), "s3://charonia/files"), buckets)


async def test_charonias_own_store_is_called_that() -> None:
    own = Location("charonia", "files/x")
    (reason,) = (await open_locations(Buckets(1.0, {})).describe(TENANT, {own: False})).values()
    assert isinstance(reason, str)
    assert "Charonia's own store, which no tenant may use" in reason
    assert "operator can allow" not in reason


async def test_settings_that_open_no_bucket_are_a_refusal() -> None:
    buckets = Buckets(1.0, {"AWS_ENDPOINT_URL": "https://own.example.com", HOST_VARIABLE: "true"})
    (reason,) = (await open_locations(buckets).describe(TENANT, {OBJECT: False})).values()
    assert isinstance(reason, str)
    assert reason.startswith("Charonia's settings cannot open the bucket; ask an operator")
    assert HOST_VARIABLE in reason


@asynccontextmanager
async def serve_bucket(monkeypatch: pytest.MonkeyPatch, answer: str, deadline: float) -> AsyncIterator[Buckets]:
    """Serve a bucket that answers every call so."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(variable, "x")
        buckets = Buckets(deadline)
        yield buckets
        buckets.close()


class SlowStore(ObjectStore):
    """Looks each object up at a time of its own, in steps of the loop."""

    def __init__(self) -> None:
        self.looking = self.most = 0

    async def head(self, key: str) -> ObjectInfo:
        self.looking += 1
        self.most = max(self.most, self.looking)
        for _ in range(3):
            await asyncio.sleep(0)
        self.looking -= 1
        return ObjectInfo(key, 1, datetime.now(UTC))


async def test_a_whole_batch_of_objects_is_looked_up_some_at_a_time() -> None:
    store, buckets = SlowStore(), Buckets(1.0, {})
    buckets._stores["scans"] = store
    objects = [Location("scans", f"in/{index}") for index in range(10_000)]
    found = await open_locations(buckets).describe(TENANT, dict.fromkeys(objects, False))
    assert found == dict.fromkeys(objects, KnownFile(1))
    assert store.most == 32


async def test_a_bucket_in_another_region_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_bucket(monkeypatch, "301 Moved Permanently\r\nx-amz-bucket-region: eu-west-1", 20.0) as buckets:
        (reason,) = (await open_locations(buckets).describe(TENANT, {OBJECT: False})).values()
    assert isinstance(reason, str)
    assert "must be in the region of AWS_REGION" in reason


async def test_a_bucket_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_bucket(monkeypatch, "503 Slow Down", 0.5) as buckets:
        with pytest.raises(Problem) as caught:
            await open_locations(buckets).describe(TENANT, {OBJECT: False})
    assert (caught.value.status, caught.value.code) == (HTTPStatus.SERVICE_UNAVAILABLE, "unavailable")
    assert caught.value.detail == "the bucket of s3://scans/in/x does not answer; try again later"
    assert "Retry-After" in caught.value.headers
