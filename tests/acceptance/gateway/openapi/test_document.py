"""The OpenAPI document is complete, and the gateway follows it for any request."""

import asyncio
import subprocess
import sys
from pathlib import Path

import httpx

from deploy.local.stack import Stack
from services.gateway.openapi.document import describe_schemas
from tests.acceptance.conftest import open_client
from tests.support.api.documented_headers import find_headers, list_headers
from tests.support.stacks.key_command import make_key

CONFIG = Path(__file__).with_name("schemathesis.toml")
ECHO = {"model": "echo", "inputs": {"x": [[1]]}}
SEED, EXAMPLE_COUNT, LIMIT = 85, 2, 300  # seconds


async def test_gateway_follows_its_document_for_generated_requests(stack: Stack, tmp_path: Path) -> None:
    """Its requests have a tenant of their own: they replay dead letters, and those of other tests may kill Triton."""
    key = await make_key(stack, "generated-requests", "--rate-limit", "1000")
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "--config-file",
        str(CONFIG),
        "run",
        f"{stack.url}/openapi.json",
        "--header",
        f"Authorization: Bearer {key}",
        "--checks",
        "all",
        "--phases",
        "examples,coverage,fuzzing,stateful",
        "--max-examples",
        str(EXAMPLE_COUNT),
        "--seed",
        str(SEED),
        "--continue-on-failure",
        "--no-color",
        "--warnings",
        "off",
    ]
    run = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=LIMIT, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stdout[-20_000:]
    assert " 0 failed" not in run.stdout
    assert "Tested: 0" not in run.stdout


async def test_document_has_the_schemas_that_bodies_are_checked_against(stack: Stack) -> None:
    """Schemas made by Litestar alone would lack bounds."""
    async with httpx.AsyncClient(base_url=stack.url, timeout=30) as http:
        schemas = (await http.get("/openapi.json")).json()["components"]["schemas"]
    checked = describe_schemas()
    assert schemas.keys() == checked.keys()
    requests = ("SubmitJob", "BatchJob", "CreateKey", "CreateWebhook", "ChangeWebhook", "Replay", "InferRequest")
    assert {name: schemas[name] for name in requests} == {name: checked[name] for name in requests}


async def test_responses_have_exactly_the_documented_headers(stack: Stack) -> None:
    """Responses to one call with one status have all the headers together that the document lists for them."""
    key = await make_key(stack, "headers", "--rate-limit", "1000")
    again = {"Idempotency-Key": "again"}
    tensor = {"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1]}
    infer = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    async with open_client(stack, key) as client:
        document = (await client.http.get("/openapi.json")).json()
        first = await client.http.post("/v1/jobs", json=ECHO, headers=again)
        responses = [
            await client.http.post("/v1/jobs", json=ECHO, headers=again),
            await client.http.post("/v1/jobs", json=ECHO, headers=again | {"Prefer": "wait=20"}),
            await client.http.post("/v1/jobs", json=ECHO, headers=again | {"Accept": "text/event-stream"}),
            await client.http.post("/v2/models/echo/infer", json=infer, headers={"Accept-Encoding": "gzip"}),
            await client.http.get(f"/v1/jobs/{first.json()['id']}/events", headers={"Accept": "text/event-stream"}),
            await client.http.get("/v1/jobs/none"),
            await client.http.get("/v1/jobs", headers={"Authorization": "Bearer none"}),
        ]
    async with open_client(stack, await make_key(stack, "headers", "--rate-limit", "1")) as limited:
        rate_limited = await asyncio.gather(*(limited.http.get("/v1/models") for _ in range(5)))
    responses.append(next(response for response in rate_limited if response.status_code == 429))
    assert [response.status_code for response in responses] == [202, 200, 200, 200, 200, 404, 401, 429]
    sent: dict[tuple[str, int], set[str]] = {}
    for response in responses:
        sent.setdefault((response.request.url.path, response.status_code), set()).update(list_headers(response))
    for response in responses:
        assert sent[response.request.url.path, response.status_code] == find_headers(document, response)
        assert list_headers(response)
