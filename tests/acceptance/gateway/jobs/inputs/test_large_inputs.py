"""Large inputs in the body of a job go through the object store, and PostgreSQL has small rows only."""

import asyncio
import base64
import json
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import asyncpg
import numpy as np
import pytest

from deploy.local.processes.ports import HOST, free_ports
from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import IMAGE, LINES
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_gateway import another_gateway
from tests.support.waiting import eventually

SIZE = 12_000_000  # in base64, this is just below the limit of a body
VALUES = [float(value) for value in range(1000)]
LIMIT = {"CHARONIA_INLINE_INPUT_BYTES": "1024"}
SMALL = {"model": "echo", "inputs": {"x": [[1.0]]}}
LARGE = {"model": "echo", "inputs": {"x": [VALUES]}}
LARGEST_ROW = "SELECT max(octet_length(tensors)) FROM jobs WHERE tenant_id = $1"


class Tenant(NamedTuple):
    """A tenant, and what the folder and the database have of it."""

    id: uuid.UUID
    key: str
    folder: Path
    database: "asyncpg.Connection[asyncpg.Record]"

    async def list_rows(self) -> list[tuple[str, bool]]:
        """Return the status of each file, and whether it belongs to a job."""
        found = await self.database.fetch("SELECT status, job_id FROM files WHERE tenant_id = $1", self.id)
        return [(record["status"], record["job_id"] is not None) for record in found]

    def list_objects(self) -> list[str]:
        return [name for _, _, names in os.walk(self.folder) for name in names]  # folders may vanish meanwhile

    async def measure_largest_row(self) -> int:
        return int(await self.database.fetchval(LARGEST_ROW, self.id))

    async def wait_until_nothing_is_left(self) -> None:
        async def is_empty() -> bool:
            return not await self.list_rows() and not self.list_objects()

        await eventually(is_empty, "the rows and the objects are gone")


@pytest.fixture
async def tenant(stack: Stack) -> AsyncIterator[Tenant]:
    name = f"large-{uuid.uuid4().hex[:8]}"
    key = await make_key(stack, name)
    database = await asyncpg.connect(stack.postgres.url)
    try:
        found = await database.fetchval("SELECT id FROM tenants WHERE name = $1", name)
        yield Tenant(found, key, Path(urlsplit(stack.environment["CHARONIA_STORE_URL"]).path) / str(found), database)
    finally:
        await database.close()


@pytest.fixture(scope="module")
async def limited(stack: Stack) -> AsyncIterator[Service]:
    """A gateway that keeps 1,024 bytes of a job's inputs in its row."""
    async with another_gateway(stack, **LIMIT) as gateway:
        yield gateway


@pytest.fixture
async def api(stack: Stack, tenant: Tenant, limited: Service) -> AsyncIterator[Api]:
    """A client of the limited gateway."""
    async with open_client(stack, tenant.key, limited.url) as api:
        yield api


@asynccontextmanager
async def hold_commits(tenant: Tenant) -> AsyncIterator[None]:
    """Let no job be added."""
    async with tenant.database.transaction():
        await tenant.database.execute("LOCK TABLE live_jobs IN SHARE MODE")
        yield


async def test_twelve_megabytes_run_and_the_row_stays_small(stack: Stack, tenant: Tenant) -> None:
    image = base64.b64encode(IMAGE + bytes(SIZE - len(IMAGE))).decode()
    async with open_client(stack, tenant.key) as api:
        api.http.timeout = 60
        job = await api.run("ocr", {"image": {"base64": image}})
        assert (job.status, job.output("text")) == ("succeeded", LINES)
        assert await tenant.list_rows() == [("ready", True)]
        assert await tenant.measure_largest_row() < 200
        assert (await api.http.get("/v1/files")).json()["items"] == []
        assert (await api.http.post(f"/v1/jobs/{job.id}/erase")).status_code == 204
    await tenant.wait_until_nothing_is_left()


async def test_every_way_to_submit_takes_large_inputs(api: Api, tenant: Tenant) -> None:
    doubled = [2 * value for value in VALUES]
    listed = [{"name": "x", "datatype": "FP32", "shape": [1, 1000], "data": VALUES}]
    for inputs in ({"x": [VALUES]}, listed):
        assert (await api.run("echo", inputs)).output("y") == doubled
    answer = await api.http.post("/v2/models/echo/infer", json={"inputs": listed})
    assert answer.json()["outputs"][0]["data"] == doubled
    raw = np.array(VALUES, "<f4").tobytes()
    head = json.dumps(
        {
            "inputs": [
                {"name": "x", "datatype": "FP32", "shape": [1, 1000], "parameters": {"binary_data_size": len(raw)}}
            ]
        }
    ).encode()
    answer = await api.http.post(
        "/v2/models/echo/infer", content=head + raw, headers={"Inference-Header-Content-Length": str(len(head))}
    )
    assert answer.json()["outputs"][0]["data"] == doubled
    assert await tenant.list_rows() == [("ready", True)] * 4
    assert await tenant.measure_largest_row() < 200


async def test_a_batch_mixes_large_and_small_inputs(api: Api, tenant: Tenant) -> None:
    wrong: dict[str, Any] = {"model": "echo", "inputs": {"x": ["a" * 5000]}}
    items = [LARGE, SMALL, wrong, *[LARGE] * 20]
    lines = "\n".join(json.dumps(item) for item in items)
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "batch"}
    batch = (await api.http.post("/v1/batches", content=lines, headers=headers)).json()
    assert (batch["accepted"], batch["total"]) == (22, 23)
    again = (await api.http.post("/v1/batches", content=lines, headers=headers)).json()
    assert again["id"] == batch["id"]
    await api.http.get(f"/v1/batches/{batch['id']}", params={"wait": 30}, timeout=40)
    results = (await api.http.get(f"/v1/batches/{batch['id']}/results")).text.splitlines()
    statuses = [(json.loads(line).get("job") or {}).get("status") for line in results]
    assert statuses == ["succeeded", "succeeded", None, *["succeeded"] * 20]
    assert await tenant.list_rows() == [("ready", True)] * 21
    assert await tenant.measure_largest_row() < 1024


async def test_a_gateway_killed_between_put_and_commit_leaves_nothing(stack: Stack, tenant: Tenant) -> None:
    async def is_stored() -> bool:
        return await other.fetchval("SELECT count(*) FROM files WHERE tenant_id = $1", tenant.id) == 1 and (
            tenant.list_objects() == ["content"]
        )

    other = await asyncpg.connect(stack.postgres.url)
    try:
        async with another_gateway(stack, **LIMIT) as gateway, open_client(stack, tenant.key, gateway.url) as api:
            async with hold_commits(tenant):
                submitting = asyncio.create_task(api.http.post("/v1/jobs", json=LARGE))
                await eventually(is_stored, "the input is stored, and its job is not added")
                await asyncio.to_thread(gateway.process.kill)
            await asyncio.wait([submitting])
            assert submitting.exception() is not None
    finally:
        await other.close()
    assert await tenant.list_rows() == [("uploading", False)]
    assert await tenant.database.fetch("SELECT FROM jobs WHERE tenant_id = $1", tenant.id) == []
    await tenant.database.execute("UPDATE files SET expires_at = now() WHERE tenant_id = $1", tenant.id)
    await tenant.wait_until_nothing_is_left()


async def test_without_the_store_small_jobs_are_accepted(stack: Stack, tenant: Tenant) -> None:
    (nobody,) = free_ports(1)
    away = {
        "CHARONIA_STORE_URL": "s3://bucket",
        "AWS_ENDPOINT_URL": f"http://{HOST}:{nobody}",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
    async with another_gateway(stack, **LIMIT, **away) as gateway, open_client(stack, tenant.key, gateway.url) as api:
        api.http.timeout = 60
        for path, body in (("/v1/jobs", LARGE), ("/v1/batches", [SMALL, LARGE])):
            response = await api.http.post(path, json=body)
            assert (response.status_code, response.json()["type"]) == (503, "urn:charonia:problem:unavailable")
            assert response.headers["Retry-After"]
        assert (await api.run("echo", {"x": [[1.0]]})).output("y") == [2.0]
        assert (await api.http.get("/readyz")).status_code == 200
    assert len(await tenant.database.fetch("SELECT FROM jobs WHERE tenant_id = $1", tenant.id)) == 1
    await tenant.wait_until_nothing_is_left()
