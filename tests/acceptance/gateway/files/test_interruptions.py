"""Uploads that do not end leave nothing, and deleted files do not either."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import asyncpg
import pytest

from deploy.local.processes.ports import HOST, free_ports
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.uploads import code_of, upload
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_gateway import another_gateway
from tests.support.waiting import eventually

MIB = 1024 * 1024
COUNT = 30  # uploads of the greedy tenant


class Tenant(NamedTuple):
    """A tenant, and what a folder and the database have of it."""

    key: str
    folder: Path
    database: "asyncpg.Connection[asyncpg.Record]"
    name: str

    async def list_rows(self) -> list[str]:
        query = "SELECT f.status FROM files f JOIN tenants t ON t.id = f.tenant_id WHERE t.name = $1"
        return [row["status"] for row in await self.database.fetch(query, self.name)]

    async def list_parts(self) -> list[str]:
        query = "SELECT id FROM tenants WHERE name = $1"
        return sorted(
            path.name for path in (self.folder / str(await self.database.fetchval(query, self.name))).rglob("*#*")
        )

    async def wait_until_nothing_is_left(self) -> None:
        tenant_id = await self.database.fetchval("SELECT id FROM tenants WHERE name = $1", self.name)

        async def is_empty() -> bool:
            return not await self.list_rows() and not (self.folder / str(tenant_id)).exists()

        await eventually(is_empty, "the rows and the objects are gone")


@pytest.fixture
async def tenant(stack: Stack) -> AsyncIterator[Tenant]:
    name = f"files-{uuid.uuid4().hex[:8]}"
    key = await make_key(stack, name)
    database = await asyncpg.connect(stack.postgres.url)
    folder = Path(urlsplit(stack.environment["CHARONIA_STORE_URL"]).path)
    try:
        yield Tenant(key, folder, database, name)
    finally:
        await database.close()


class HalfUpload(NamedTuple):
    """An upload whose second half does not come."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def read_status(self, within: float = 20.0) -> int:
        async with asyncio.timeout(within):
            head = await self.reader.readuntil(b"\r\n\r\n")
        return int(head.split()[1])


@asynccontextmanager
async def half_upload(port: int, key: str, sent: int = 20 * MIB) -> AsyncIterator[HalfUpload]:
    reader, writer = await asyncio.open_connection(HOST, port)
    head = f"POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: {2 * sent}\r\n\r\n"
    writer.write(head.encode() + b"x" * sent)
    await writer.drain()
    try:
        yield HalfUpload(reader, writer)
    finally:
        writer.close()


async def wait_until_stored(tenant: Tenant) -> None:
    async def has_parts() -> bool:
        return await tenant.list_rows() == ["uploading"] and bool(await tenant.list_parts())

    await eventually(has_parts, "a part of the upload is in the store")


async def test_an_upload_of_a_killed_gateway_leaves_nothing_after_its_lease(stack: Stack, tenant: Tenant) -> None:
    async with another_gateway(stack) as gateway, half_upload(gateway.port, tenant.key):
        await wait_until_stored(tenant)
        await asyncio.to_thread(gateway.process.kill)
    assert await tenant.list_rows() == ["uploading"]
    await tenant.database.execute("UPDATE files SET expires_at = now() WHERE status = 'uploading'")
    await tenant.wait_until_nothing_is_left()


async def test_a_client_that_disconnects_leaves_nothing(stack: Stack, tenant: Tenant) -> None:
    async with half_upload(stack.settings.gateway_port, tenant.key):
        await wait_until_stored(tenant)
    await tenant.wait_until_nothing_is_left()


async def test_an_upload_during_a_shutdown_is_answered_and_leaves_nothing(stack: Stack, tenant: Tenant) -> None:
    async with another_gateway(stack) as gateway, half_upload(gateway.port, tenant.key) as half:
        await wait_until_stored(tenant)
        stopping = asyncio.create_task(asyncio.to_thread(gateway.stop))
        assert await half.read_status() == 503
        assert await stopping == 0
    await tenant.wait_until_nothing_is_left()


async def test_uploads_that_stall_end_and_leave_room_for_others(stack: Stack, tenant: Tenant) -> None:
    other = await make_key(stack, f"files-{uuid.uuid4().hex[:8]}")
    async with AsyncExitStack() as opened, open_client(stack, other) as api:
        port = stack.settings.gateway_port
        halves = [await opened.enter_async_context(half_upload(port, tenant.key, 1000)) for _ in range(COUNT)]

        async def hold_slots() -> bool:
            return len(await tenant.list_rows()) >= 8

        await eventually(hold_slots, "the tenant has all the slots it can get")
        await upload(api, b"x" * MIB)
        statuses = [await half.read_status() for half in halves]
    assert set(statuses) == {408, 503}
    assert 4 <= statuses.count(408) < 16
    await tenant.wait_until_nothing_is_left()


async def test_deleted_and_expired_files_leave_nothing(stack: Stack, tenant: Tenant) -> None:
    async with open_client(stack, tenant.key) as api:
        deleted, expiring = [await upload(api, b"content", params={"expires_in": seconds}) for seconds in (60, 0.5)]
        assert (await api.http.delete(f"/v1/files/{deleted['id']}")).status_code == 204
        await tenant.wait_until_nothing_is_left()
        assert (await api.http.get(f"/v1/files/{expiring['id']}")).status_code == 404


async def test_an_upload_that_was_given_up_is_told_so(stack: Stack, tenant: Tenant) -> None:
    """Its object, which is there only after the sweep, is removed too."""
    async with half_upload(stack.settings.gateway_port, tenant.key, 1000) as half:

        async def is_uploading() -> bool:
            return await tenant.list_rows() == ["uploading"]

        await eventually(is_uploading, "the upload has begun")
        await tenant.database.execute("DELETE FROM files WHERE status = 'uploading'")
        half.writer.write(b"x" * 1000)
        assert await half.read_status() == 503
    await tenant.wait_until_nothing_is_left()


async def test_without_the_store_only_files_are_unavailable(stack: Stack, tenant: Tenant) -> None:
    (nobody,) = free_ports(1)
    variables = {
        "CHARONIA_STORE_URL": "s3://bucket",
        "CHARONIA_STORE_REDIRECTS": "false",
        "AWS_ENDPOINT_URL": f"http://{HOST}:{nobody}",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
    async with open_client(stack, tenant.key) as api:
        file = await upload(api, b"content")
    async with another_gateway(stack, **variables) as gateway, open_client(stack, tenant.key, gateway.url) as api:
        api.http.timeout = 30
        refused = [
            api.http.post("/v1/files", content=b"content"),
            api.http.get(f"/v1/files/{file['id']}/content"),
        ]
        for response in await asyncio.gather(*refused):
            assert (response.status_code, code_of(response.json())) == (503, "unavailable")
            assert response.headers["Retry-After"]
        assert (await api.http.get(f"/v1/files/{file['id']}")).status_code == 200
        assert (await api.http.post("/v1/jobs", json={"model": "echo", "inputs": {"x": [[1]]}})).status_code == 202
        assert (await api.http.get("/readyz")).status_code == 200
