"""The OpenAPI document is complete and true: what it says is what the gateway does, whatever is sent."""

import asyncio
import subprocess
import sys
from pathlib import Path

import httpx
import msgspec
import pytest

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from services.gateway.examples import EXAMPLES
from services.gateway.openapi import KINDS
from tests.acceptance.client import Api
from tests.acceptance.conftest import open_client
from tests.acceptance.documented import find_headers, list_headers
from tests.acceptance.keys import make_key
from tests.acceptance.receiver import Receiver

CONFIG = Path(__file__).with_name("schemathesis.toml")
ECHO = {"model": "echo", "inputs": {"x": [[1]]}}
SEED, EXAMPLE_COUNT, LIMIT = 85, 8, 300  # seconds


async def test_nothing_that_is_sent_breaks_what_the_document_says(stack: Stack, tmp_path: Path) -> None:
    command = [
        *(str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(CONFIG)),
        *("run", f"{stack.url}/openapi.json", "--header", f"Authorization: Bearer {DEVELOPMENT_KEY}"),
        *("--checks", "all", "--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLE_COUNT)),
        *("--seed", str(SEED), "--continue-on-failure", "--no-color", "--warnings", "off"),
    ]
    run = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=LIMIT, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stdout[-20_000:]
    assert " 0 failed" not in run.stdout
    assert "Tested: 0" not in run.stdout


async def test_every_schema_is_the_one_that_bodies_are_checked_against(stack: Stack) -> None:
    """One that is only Litestar's lacks bounds."""
    async with httpx.AsyncClient(base_url=stack.url) as http:
        document = (await http.get("/openapi.json")).json()
    _, components = msgspec.json.schema_components(KINDS, ref_template="#/components/schemas/{name}")
    assert document["components"]["schemas"] == components


async def test_the_headers_of_an_answer_are_those_in_the_document(stack: Stack) -> None:
    """Of these answers each may have all that the document has for it."""
    key = await make_key(stack, "headers", "--rate-limit", "1000")
    again = {"Idempotency-Key": "again"}
    tensor = {"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1]}
    infer = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    async with open_client(stack, key) as client:
        document = (await client.http.get("/openapi.json")).json()
        first = await client.http.post("/v1/jobs", json=ECHO, headers=again)
        answers = [
            await client.http.post("/v1/jobs", json=ECHO, headers=again),
            await client.http.post("/v1/jobs", json=ECHO, headers=again | {"Prefer": "wait=20"}),
            await client.http.post("/v2/models/echo/infer", json=infer, headers={"Accept-Encoding": "gzip"}),
            await client.http.get(f"/v1/jobs/{first.json()['id']}/events", headers={"Accept": "text/event-stream"}),
            await client.http.get("/v1/jobs/none"),
            await client.http.get("/v1/jobs", headers={"Authorization": "Bearer none"}),
        ]
    async with open_client(stack, await make_key(stack, "headers", "--rate-limit", "1")) as limited:
        hurried = await asyncio.gather(*(limited.http.get("/v1/models") for _ in range(5)))
    answers.append(next(answer for answer in hurried if answer.status_code == 429))
    assert [answer.status_code for answer in answers] == [202, 200, 200, 200, 404, 401, 429]
    for answer in answers:
        assert list_headers(answer) == find_headers(document, answer), answer.request.url
        assert list_headers(answer)


@pytest.mark.parametrize(("name", "path"), [("SubmitJob", "/v1/jobs"), ("CreateWebhook", "/v1/webhooks")])
async def test_the_examples_work(api: Api, receiver: Receiver, name: str, path: str) -> None:
    url = receiver.inbox().url.encode()
    for example in EXAMPLES[name].values():
        content = msgspec.json.encode(example).replace(b"https://example.com/hook", url)
        answer = await api.http.post(path, content=content, headers={"Content-Type": "application/json"})
        assert answer.is_success, answer.text
        if name == "CreateWebhook":
            assert (await api.http.delete(f"{path}/{answer.json()['id']}")).status_code == 204
