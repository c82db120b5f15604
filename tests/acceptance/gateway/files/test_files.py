"""Files are uploaded, read, listed and deleted, on a folder and on S3."""

import base64
import hashlib
import os
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from common import ids
from common.security.signed_urls import UrlSigner
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.uploads import code_of, in_parts, upload
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_gateway import another_gateway

CONTENT = os.urandom(3_000_000)
SHA256 = hashlib.sha256(CONTENT)
MIB = 1024 * 1024
MISTAKES: list[tuple[dict[str, Any], int, list[str]]] = [
    ({"params": {"sha256": "0" * 64}}, 422, ["sha256"]),
    ({"params": {"sha256": "abc"}}, 422, ["sha256"]),
    ({"headers": {"Content-Digest": "md5=:AAAA:"}}, 422, ["Content-Digest"]),
    ({"headers": {"Content-Type": "png"}}, 422, ["Content-Type"]),
    ({"params": {"expires_in": 1e9}}, 422, ["expires_in"]),
    ({"params": {"expires_in": -1}}, 422, ["expires_in"]),
    ({"params": {"expires_in": "nan"}}, 422, ["expires_in"]),
    ({"headers": {"Content-Type": "multipart/form-data; boundary=x"}}, 415, []),
    ({"headers": {"Content-Encoding": "gzip"}}, 415, []),
]


async def test_a_file_comes_back_as_it_was(owner: Api) -> None:
    file = await upload(owner, CONTENT, headers={"Content-Type": "image/png"})
    assert (file["size"], file["sha256"], file["content_type"]) == (len(CONTENT), SHA256.hexdigest(), "image/png")
    assert (await owner.http.get(f"/v1/files/{file['id']}")).json() == file
    response = await owner.http.get(f"/v1/files/{file['id']}/content")
    assert (response.status_code, response.content == CONTENT) == (200, True)
    assert response.headers["Content-Type"] == "image/png"
    assert response.headers["Content-Length"] == str(len(CONTENT))
    assert response.headers["Content-Disposition"].startswith("attachment")
    assert response.headers["ETag"] == f'"{SHA256.hexdigest()}"'
    head = await owner.http.head(f"/v1/files/{file['id']}/content")
    assert (head.status_code, head.headers["ETag"], head.content) == (200, response.headers["ETag"], b"")
    assert head.headers["Content-Length"] == str(len(CONTENT))


async def test_a_file_may_come_in_parts_of_unknown_number_or_be_empty(owner: Api) -> None:
    digest = {"Content-Digest": f"sha-256=:{base64.b64encode(SHA256.digest()).decode()}:"}
    file = await upload(owner, in_parts(CONTENT), headers=digest)
    assert (file["size"], file["content_type"]) == (len(CONTENT), "application/octet-stream")
    empty = await upload(owner, b"", params={"sha256": hashlib.sha256().hexdigest()})
    assert (await owner.http.get(f"/v1/files/{empty['id']}/content")).content == b""


async def test_the_type_stays_as_it_was(owner: Api) -> None:
    for kind in ("text/csv", "text/html; charset=latin-1", "application/json"):
        file = await upload(owner, b"{}", headers={"Content-Type": kind})
        response = await owner.http.get(f"/v1/files/{file['id']}/content", headers={"Accept-Encoding": "gzip"})
        assert (response.headers["Content-Type"], response.content) == (kind, b"{}")
        assert "Content-Encoding" not in response.headers


async def test_parts_of_a_file_can_be_read(owner: Api) -> None:
    file = await upload(owner, CONTENT)
    url = f"/v1/files/{file['id']}/content"
    part = await owner.http.get(url, headers={"Range": "bytes=1000-1499999"})
    assert (part.status_code, part.content == CONTENT[1000:1_500_000]) == (206, True)
    assert part.headers["Content-Range"] == f"bytes 1000-1499999/{len(CONTENT)}"
    assert (await owner.http.get(url, headers={"Range": "bytes=-5"})).content == CONTENT[-5:]
    after = await owner.http.get(url, headers={"Range": f"bytes={len(CONTENT)}-"})
    assert (after.status_code, code_of(after.json())) == (416, "out_of_range")
    assert after.headers["Content-Range"] == f"bytes */{len(CONTENT)}"
    changed = await owner.http.get(url, headers={"Range": "bytes=0-0", "If-Range": '"other"'})
    assert (changed.status_code, len(changed.content)) == (200, len(CONTENT))
    head = await owner.http.head(url, headers={"Range": "bytes=0-0"})
    assert (head.status_code, head.headers["Content-Length"]) == (200, str(len(CONTENT)))


async def test_files_are_listed_newest_first_and_deleted(owner: Api) -> None:
    made = [(await upload(owner, str(number).encode()))["id"] for number in range(3)]
    first = (await owner.http.get("/v1/files", params={"limit": 2})).json()
    rest = (await owner.http.get("/v1/files", params={"limit": 2, "cursor": first["next_cursor"]})).json()
    assert [each["id"] for each in first["items"] + rest["items"]] == made[::-1]
    assert rest["next_cursor"] is None
    assert (await owner.http.delete(f"/v1/files/{made[0]}")).status_code == 204
    for path in (f"/v1/files/{made[0]}", f"/v1/files/{made[0]}/content"):
        assert (await owner.http.get(path)).status_code == 404
    assert (await owner.http.delete(f"/v1/files/{made[0]}")).status_code == 404
    assert len((await owner.http.get("/v1/files")).json()["items"]) == 2


async def test_another_tenant_sees_nothing(owner: Api, stack: Stack, gateway: str) -> None:
    file = await upload(owner, b"secret")
    async with open_client(stack, await make_key(stack, f"other-{uuid.uuid4().hex[:8]}"), gateway) as other:
        for path in (f"/v1/files/{file['id']}", f"/v1/files/{file['id']}/content"):
            assert (await other.http.get(path)).status_code == 404
        assert (await other.http.delete(f"/v1/files/{file['id']}")).status_code == 404
        assert (await other.http.get("/v1/files")).json()["items"] == []


async def test_mistakes_are_named_and_nothing_is_kept(owner: Api) -> None:
    for more, status, pointers in MISTAKES:
        problem = await upload(owner, b"content", status, **more)
        assert [each["pointer"] for each in problem.get("errors", [])] == pointers, more
    assert (await owner.http.get("/v1/files")).json()["items"] == []


async def test_limits_are_named(stack: Stack) -> None:
    key = await make_key(stack, f"files-{uuid.uuid4().hex[:8]}")
    limits = {"CHARONIA_MAX_FILE_BYTES": str(2 * MIB), "CHARONIA_MAX_STORED_BYTES": str(3 * MIB)}
    async with another_gateway(stack, **limits) as gateway, open_client(stack, key, gateway.url) as api:
        for content in (b"x" * (2 * MIB + 1), in_parts(b"x" * (2 * MIB + 1))):
            large = await upload(api, content, 413)
            assert "CHARONIA_MAX_FILE_BYTES" in large["detail"]
        file = await upload(api, b"x" * 2 * MIB)
        for content in (b"x" * 2 * MIB, in_parts(b"x" * 2 * MIB)):
            full = await upload(api, content, 429)
            assert code_of(full) == "quota_exceeded"
            assert f"may have {3 * MIB}" in full["detail"]
        await upload(api, b"x" * MIB)
        assert "CHARONIA_MAX_STORED_BYTES" in (await upload(api, b"x", 429))["detail"]
        assert (await api.http.delete(f"/v1/files/{file['id']}")).status_code == 204


async def test_a_signed_url_needs_no_key(owner: Api, stack: Stack, gateway: str) -> None:
    file = await upload(owner, b"content")
    file_id = ids.parse(ids.Kind.FILE, file["id"])
    assert file_id is not None
    signer, now = UrlSigner([stack.environment["CHARONIA_URL_KEYS"]]), datetime.now(UTC)
    async with httpx.AsyncClient(base_url=gateway, timeout=30) as http:
        path = f"/v1/files/{file['id']}/content"
        assert (await http.get(path)).status_code == 401
        assert (await http.get(f"{path}?{signer.sign(file_id, now)}")).content == b"content"
        for query, text in {
            signer.sign(file_id, now - timedelta(days=8)): "has expired",
            signer.sign(ids.new(), now): "signature is wrong",
        }.items():
            refused = await http.get(f"{path}?{query}")
            assert (refused.status_code, text in refused.json()["detail"]) == (403, True)
