"""Clients send files to the object store themselves, and read them there."""

import asyncio
import hashlib
import os
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.uploads import code_of, upload
from tests.support.s3.replacement import replace
from tests.support.s3.server import S3
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_gateway import another_gateway

CONTENT = os.urandom(3_000_000)
MISTAKES: list[tuple[dict[str, Any], int, list[str]]] = [
    ({"size": -1}, 422, ["/size"]),
    ({"size": 1, "sha256": "x"}, 422, ["/sha256"]),
    ({"size": 1, "content_type": "png"}, 422, ["/content_type"]),
    ({"size": 1, "content_type": "image/png\n"}, 422, ["/content_type"]),
    ({"size": 1, "name": "x"}, 422, ["/name"]),
    ({"size": 1, "expires_in": 1e9}, 422, ["/expires_in"]),
    ({"size": 1, "expires_in": 0}, 422, ["/expires_in"]),
    ({"size": 6 * 1024**3}, 413, []),
]


@pytest.fixture
async def owner(stack: Stack, on_s3: Service) -> AsyncIterator[Api]:
    async with open_client(stack, await make_key(stack, f"files-{uuid.uuid4().hex[:8]}"), on_s3.url) as api:
        yield api


@pytest.fixture(scope="module")
async def sending(stack: Stack, bucket: dict[str, str]) -> AsyncIterator[Service]:
    """A gateway that sends files itself, and lets a tenant have as many bytes as the content."""
    limits = {"CHARONIA_MAX_STORED_BYTES": str(len(CONTENT)), "CHARONIA_STORE_REDIRECTS": "false"}
    async with another_gateway(stack, name="gateway-sending", **limits, **bucket) as own:
        yield own


async def presign(api: Api, status: int = 201, **wanted: Any) -> dict[str, Any]:
    response = await api.http.post("/v1/files/presign", json=wanted)
    assert response.status_code == status, response.text
    found: dict[str, Any] = response.json()
    return found


async def put(upload: dict[str, Any], content: bytes) -> None:
    async with httpx.AsyncClient(timeout=30) as http:
        response = await http.request(upload["method"], upload["url"], content=content, headers=upload["headers"])
    assert response.is_success, response.text


async def test_a_file_goes_to_the_store_and_comes_from_it(owner: Api) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    made = await presign(owner, size=len(CONTENT), sha256=digest, content_type="audio/flac")
    path = f"/v1/files/{made['id']}"
    for each in (path, f"{path}/content"):
        early = await owner.http.get(each)
        assert (early.status_code, "has not been uploaded" in early.json()["detail"]) == (409, True)
    assert (await owner.http.get("/v1/files")).json()["items"] == []
    await put(made["upload"], CONTENT)
    file = (await owner.http.get(path)).json()
    assert (file["size"], file["sha256"], file["content_type"]) == (len(CONTENT), digest, "audio/flac")
    assert (await owner.http.get("/v1/files")).json()["items"] == [file]
    assert (await owner.http.get(path)).json() == file
    redirected = await owner.http.get(f"{path}/content")
    assert (redirected.status_code, redirected.content) == (307, b"")
    async with httpx.AsyncClient(timeout=30) as http:
        response = await http.get(redirected.headers["Location"])
    assert (response.headers["Content-Type"], response.content == CONTENT) == ("audio/flac", True)
    assert (await owner.http.delete(path)).status_code == 204
    assert (await owner.http.get(path)).status_code == 404


async def test_the_store_refuses_another_size_than_announced(owner: Api) -> None:
    """So nothing can be stored that no quota counts."""
    made = await presign(owner, size=0)
    async with httpx.AsyncClient(timeout=30) as http:
        refused = await http.put(made["upload"]["url"], content=CONTENT)
        assert (refused.status_code, "SignatureDoesNotMatch" in refused.text) == (403, True)
    await put(made["upload"], b"")
    assert (await owner.http.get(f"/v1/files/{made['id']}")).json()["size"] == 0


async def test_an_upload_of_another_size_is_no_file(owner: Api, s3: S3) -> None:
    made = await presign(owner, size=10)
    await replace(s3.environment, made["upload"], b"123")
    response = await owner.http.get(f"/v1/files/{made['id']}")
    assert (response.status_code, "has 3 bytes, not 10" in response.json()["detail"]) == (409, True)
    await put(made["upload"], b"1234567890")
    assert (await owner.http.get(f"/v1/files/{made['id']}")).status_code == 404
    made = await presign(owner, size=10)
    await put(made["upload"], b"1234567890")
    assert (await owner.http.get(f"/v1/files/{made['id']}")).json()["sha256"] is None


async def test_an_upload_that_is_larger_than_announced_counts_as_it_is(stack: Stack, s3: S3, sending: Service) -> None:
    async with open_client(stack, await make_key(stack, f"files-{uuid.uuid4().hex[:8]}"), sending.url) as api:
        made = await presign(api, size=10)
        await replace(s3.environment, made["upload"], CONTENT)
        refused = await api.http.get(f"/v1/files/{made['id']}")
        assert (refused.status_code, f"has {len(CONTENT)} bytes, not 10" in refused.json()["detail"]) == (409, True)
        assert (await api.http.get(f"/v1/files/{made['id']}/content")).status_code == 404
        assert code_of(await presign(api, 429, size=1)) == "quota_exceeded"


async def test_an_upload_goes_on_while_its_gateway_is_down(
    stack: Stack, bucket: dict[str, str], on_s3: Service
) -> None:
    key, half = await make_key(stack, f"files-{uuid.uuid4().hex[:8]}"), len(CONTENT) // 2
    began, may_end = asyncio.Event(), asyncio.Event()

    async def send() -> AsyncIterator[bytes]:
        yield CONTENT[:half]
        began.set()
        await may_end.wait()
        yield CONTENT[half:]

    async with another_gateway(stack, **bucket) as gateway, open_client(stack, key, gateway.url) as api:
        made = await presign(api, size=len(CONTENT))
        headers = made["upload"]["headers"] | {"Content-Length": str(len(CONTENT))}
        async with httpx.AsyncClient(timeout=30) as http:
            sending = asyncio.create_task(http.put(made["upload"]["url"], content=send(), headers=headers))
            await began.wait()
            await asyncio.to_thread(gateway.kill)
            may_end.set()
            assert (await sending).is_success
    async with open_client(stack, key, on_s3.url) as api:
        file = (await api.http.get(f"/v1/files/{made['id']}")).json()
        assert (file["id"], file["size"]) == (made["id"], len(CONTENT))


async def test_content_that_was_replaced_is_not_sent_as_the_file(stack: Stack, s3: S3, sending: Service) -> None:
    async with open_client(stack, await make_key(stack, f"files-{uuid.uuid4().hex[:8]}"), sending.url) as api:
        made = await presign(api, size=3)
        await put(made["upload"], b"123")
        path = f"/v1/files/{made['id']}/content"
        assert (await api.http.get(path)).content == b"123"
        await replace(s3.environment, made["upload"], b"12345")
        refused = await api.http.get(path)
        assert (refused.status_code, "has 5 bytes, not 3" in refused.json()["detail"]) == (409, True)


async def test_an_uploaded_file_is_read_with_a_redirect(owner: Api) -> None:
    file = await upload(owner, CONTENT, headers={"Content-Type": "image/png"})
    owner.http.follow_redirects = True
    response = await owner.http.get(f"/v1/files/{file['id']}/content", headers={"Range": "bytes=5-9"})
    assert (response.status_code, response.content) == (206, CONTENT[5:10])
    assert response.headers["Content-Type"] == "image/png"
    assert response.headers["Content-Disposition"] == f'attachment; filename="{file["id"]}"'
    head = await owner.http.head(f"/v1/files/{file['id']}/content")
    assert (head.status_code, head.headers["Content-Length"]) == (200, str(len(CONTENT)))


async def test_mistakes_are_named(owner: Api) -> None:
    for wanted, status, pointers in MISTAKES:
        problem = await presign(owner, status, **wanted)
        assert [each["pointer"] for each in problem.get("errors", [])] == pointers, wanted


async def test_a_presigned_upload_counts_against_the_quota(stack: Stack, on_s3: Service) -> None:
    async with open_client(stack, await make_key(stack, f"files-{uuid.uuid4().hex[:8]}"), on_s3.url) as api:
        for _ in range(20):
            await presign(api, size=5 * 1024**3)
        assert code_of(await presign(api, 429, size=1)) == "quota_exceeded"


async def test_a_folder_says_what_to_do_instead(stack: Stack, api: Api) -> None:
    problem = await presign(api, 422, size=1)
    assert problem["errors"][0]["pointer"] == ""
    assert "POST /v1/files" in problem["detail"]


async def test_a_script_in_a_browser_is_not_redirected(owner: Api) -> None:
    """The console's policy lets it call no other origin, and the bucket allows no page to call it."""
    path = f"/v1/files/{(await upload(owner, CONTENT))['id']}/content"
    for site in ("same-origin", "cross-site"):
        response = await owner.http.get(path, headers={"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "empty"})
        assert (response.status_code, response.content == CONTENT) == (200, True)
    link = await owner.http.get(path, headers={"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "document"})
    assert link.status_code == 307
