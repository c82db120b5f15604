"""Presigned URLs work without credentials until they expire. The S3 server of the tests refuses all others."""

from datetime import timedelta
from uuid import uuid4

import httpx
import pytest

from common.object_store.keys import file_key
from common.object_store.store import ObjectStore
from tests.integration.common.object_store.conftest import Place
from tests.integration.common.object_store.streams import list_keys, read_all, stream
from tests.support.s3.server import S3
from tests.support.waiting import eventually

KEY = file_key(uuid4(), uuid4())
MINUTE = timedelta(minutes=1)


async def test_an_object_is_read_by_url_with_a_range(bucket: Place) -> None:
    store = ObjectStore(bucket.url)
    await store.put(KEY, stream(b"12345"))
    url = await presign(store, "GET")
    async with httpx.AsyncClient() as client:
        assert (await client.get(url)).content == b"12345"
        part = await client.get(url, headers={"Range": "bytes=1-2"})
    assert (part.status_code, part.content) == (206, b"23")


async def test_an_object_is_stored_by_url(bucket: Place) -> None:
    store = ObjectStore(bucket.url)
    async with httpx.AsyncClient() as client:
        assert (await client.put(await presign(store, "PUT"), content=b"123")).status_code == 200
    assert await read_all(store, KEY) == b"123"


@pytest.mark.parametrize("sent", [b"", b"12", b"1234"])
async def test_an_upload_has_the_length_that_was_signed(bucket: Place, sent: bytes) -> None:
    store = ObjectStore(bucket.url)
    url = await store.presign("PUT", KEY, MINUTE, length=3)
    assert url is not None
    async with httpx.AsyncClient() as client:
        refused = [await client.put(url, content=sent), await client.put(url, content=stream(b"123"))]  # in chunks
        assert [(answer.status_code, "SignatureDoesNotMatch" in answer.text) for answer in refused] == [(403, True)] * 2
        assert await list_keys(store) == []
        assert (await client.put(url, content=b"123")).status_code == 200
    assert await read_all(store, KEY) == b"123"


async def test_an_empty_upload_has_its_length_signed(bucket: Place) -> None:
    store = ObjectStore(bucket.url)
    url = await store.presign("PUT", KEY, MINUTE, length=0)
    assert url is not None
    async with httpx.AsyncClient() as client:
        assert (await client.put(url, content=b"1")).status_code == 403
        assert (await client.put(url, content=b"")).status_code == 200
    assert await read_all(store, KEY) == b""


@pytest.mark.parametrize(("method", "suffix"), [("PUT", ""), ("GET", "0"), ("GET", "&x=1")])
async def test_a_url_allows_nothing_else(bucket: Place, method: str, suffix: str) -> None:
    store = ObjectStore(bucket.url)
    await store.put(KEY, stream(b"12345"))
    async with httpx.AsyncClient() as client:
        answer = await client.request(method, await presign(store, "GET") + suffix)
    assert (answer.status_code, "SignatureDoesNotMatch" in answer.text) == (403, True)


async def test_an_expired_url_is_refused(bucket: Place) -> None:
    store = ObjectStore(bucket.url)
    await store.put(KEY, stream(b"12345"))
    url = await presign(store, "GET", timedelta(seconds=1))
    async with httpx.AsyncClient() as client:

        async def refused() -> str | None:
            answer = await client.get(url)
            return answer.text if answer.status_code == 403 else None

        assert "Request has expired" in await eventually(refused, "the URL expires")


async def test_clients_may_reach_the_store_at_another_address(bucket: Place, s3: S3) -> None:
    """The store itself is asked at its own address."""
    endpoint = s3.environment["AWS_ENDPOINT_URL"].replace("127.0.0.1", "localhost")
    store = ObjectStore(bucket.url, public_endpoint=endpoint)
    async with httpx.AsyncClient() as client:
        for method, content in (("PUT", b"123"), ("GET", b"")):
            url = await presign(store, method, MINUTE)
            assert url.startswith(f"{endpoint}/")
            answer = await client.request(method, url, content=content or None)
            assert answer.status_code == 200
    assert (answer.content, await read_all(store, KEY)) == (b"123", b"123")
    await read_all(ObjectStore(bucket.url, public_endpoint="http://unreachable.invalid"), KEY)


async def test_a_folder_has_no_urls(folder: Place) -> None:
    assert await ObjectStore(folder.url).presign("GET", KEY, MINUTE) is None


async def presign(store: ObjectStore, method: str, lifetime: timedelta = MINUTE) -> str:
    url = await store.presign("PUT" if method == "PUT" else "GET", KEY, lifetime)
    assert url is not None
    return url
