"""The examples in the OpenAPI document work. Each call is sent and returns what is documented."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import httpx
import pytest

from deploy.local.stack import Stack
from services.gateway.openai.problems import PREFIX as OPENAI
from services.gateway.openapi.examples import HOOK, PIPELINE
from tests.acceptance.conftest import open_client
from tests.support.api.documented_headers import find_headers, list_headers
from tests.support.api.model_inputs import fault, work
from tests.support.api.openapi_schemas import check_value
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.key_command import make_key
from tests.support.waiting import eventually

JSON = {"Content-Type": "application/json"}
LATER = timedelta(days=30)


class Tenant(NamedTuple):
    """A tenant with one object of each kind. `ids` has their ids by the name of the path parameter."""

    http: httpx.AsyncClient
    ids: dict[str, str]


@pytest.fixture
async def tenant(stack: Stack, receiver: Receiver) -> AsyncIterator[Tenant]:
    async with open_client(stack, await make_key(stack, "examples")) as client:
        http = client.http

        async def create(path: str, body: object, **headers: str) -> str:
            response = await http.post(path, json=body, headers=headers)
            assert response.is_success, response.text
            created_id: str = response.json()["id"]
            return created_id

        webhook = await create("/v1/webhooks", {"url": receiver.inbox().url})
        job = await create("/v1/jobs", {"model": "echo", "inputs": {"x": [[1]]}}, Prefer="wait=20")
        await create("/v1/jobs", {"model": "faulty", "inputs": fault("invalid")}, Prefer="wait=20")

        async def find_delivery() -> str | None:
            items = (await http.get(f"/v1/jobs/{job}/deliveries")).json()["items"]
            return next((item["id"] for item in items if item["status"] == "succeeded"), None)

        stored = await http.put("/v1/pipelines/twice", json=PIPELINE)
        assert stored.is_success, stored.text
        later = (datetime.now(UTC) + LATER).isoformat()
        batch = await create("/v1/batches", [{"model": "echo", "inputs": {"x": [[1]]}}])
        await http.get(f"/v1/batches/{batch}", params={"wait": 30})  # only then it has results
        ids = {
            "job_id": job,
            "webhook_id": webhook,
            "batch_id": batch,
            "recovery_id": await create(f"/v1/webhooks/{webhook}/recoveries", {"since": "2026-01-01T00:00:00Z"}),
            "delivery_id": await eventually(find_delivery, "the webhook of the job has been delivered"),
            "waiting_job_id": await create("/v1/jobs", {"model": "work", "inputs": work(1), "run_at": later}),
            "waiting_batch_id": await create("/v1/batches", [{"model": "work", "inputs": work(1), "run_at": later}]),
            "key_id": await create("/v1/keys", {"name": "spare", "scopes": ["read"]}),
            "file_id": (await http.post("/v1/files", content=b"content")).json()["id"],
            "name": "echo",
            "model": "echo",
            "pipeline": "twice",
            "version": "1",
        }
        yield Tenant(http, ids)


async def test_every_call_returns_what_is_documented(tenant: Tenant, receiver: Receiver) -> None:
    document = (await tenant.http.get("/openapi.json")).json()
    calls = [
        (method, path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if not path.startswith(OPENAI)  # its calls need other models
        and operation["operationId"] != "presign_upload"  # the store is a folder
    ]
    for method, path, operation in sorted(calls, key=lambda call: removes(call[0], call[1])):  # removals last
        ids = tenant.ids
        if operation["operationId"] in ("cancel_job", "retry_job"):
            ids = ids | {"job_id": ids["waiting_job_id"]}
        if operation["operationId"] == "cancel_batch":
            ids = ids | {"batch_id": ids["waiting_batch_id"]}
        for body in list_bodies(operation, receiver.inbox().url):
            response = await tenant.http.request(method.upper(), path.format(**ids), content=body, headers=JSON)
            check_response(document, operation, response)


def removes(method: str, path: str) -> bool:
    return method == "delete" or path.endswith("/erase")


def list_bodies(operation: dict[str, Any], hook: str) -> list[bytes]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    examples = [each["value"] for each in content.get("examples", {}).values()]
    return [
        httpx.Request("POST", HOOK, json=each).content.replace(HOOK.encode(), hook.encode()) for each in examples
    ] or [b""]


def check_response(document: dict[str, Any], operation: dict[str, Any], response: httpx.Response) -> None:
    where = f"{operation['operationId']} returned {response.status_code} {response.text}"
    assert response.is_success, where
    documented = operation["responses"][str(response.status_code)]
    assert list_headers(response) <= find_headers(document, response), where
    if content := documented.get("content", {}).get("application/json"):
        check_value(document, content["schema"], response.json())
        assert content.get("example", {}).keys() <= response.json().keys(), where
    else:
        kinds = {response.headers.get("Content-Type", "").split(";")[0], "*/*"}
        assert not response.content or kinds & documented["content"].keys(), where
