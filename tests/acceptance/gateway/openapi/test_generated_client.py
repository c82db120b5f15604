"""A client that openapi-python-client generates from the document works: submit, get and list."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.local.stack import Stack
from tests.support.key_command import make_key

PACKAGE = "generated_charonia_client"
JOB = {"model": "echo", "inputs": {"x": [[1, 2, 3]]}, "metadata": {"order": 4711}}
# The generator knows no JSON lines.
CONFIG = f"""package_name_override: {PACKAGE}
content_type_overrides: {{application/x-ndjson: application/octet-stream}}
"""


@pytest.fixture
def package(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The generated package, without a single warning of the generator."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    document = tmp_path / "openapi.json"
    document.write_bytes(httpx.get(f"{stack.url}/openapi.json").content)
    command = [
        *(str(Path(sys.executable).with_name("openapi-python-client")), "generate", "--path", str(document)),
        *("--meta", "none", "--fail-on-warning", "--config", str(config), "--output-path", str(tmp_path / PACKAGE)),
    ]
    path = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}  # for ruff, which formats the package
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path, env=path)
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-5000:]
    monkeypatch.syspath_prepend(tmp_path)
    yield PACKAGE
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


async def test_generated_client_submits_gets_and_lists(stack: Stack, package: str) -> None:
    def load(name: str) -> Any:
        return import_module(f"{package}.{name}")

    key = await make_key(stack, "generated-client")
    models, client = load("models"), load("client").AuthenticatedClient(base_url=stack.url, token=key)
    async with client:
        job = models.SubmitJob.from_dict(JOB)
        submitted = await load("api.jobs.submit_job").asyncio(client=client, body=job, idempotency_key="once")
        assert type(submitted).__name__ == "JobView", submitted
        ended = await load("api.jobs.get_job").asyncio(submitted.id, client=client, wait=20)
        assert ended.status == "succeeded"
        assert [(each.name, each.datatype, each.data) for each in ended.outputs] == [("y", "FP32", [2.0, 4.0, 6.0])]
        assert ended.metadata.to_dict() == JOB["metadata"]
        await submit_again(load, client, job)
        page = await load("api.jobs.list_jobs").asyncio(client=client, limit=1, status=models.Status.SUCCEEDED)
        older = await load("api.jobs.list_jobs").asyncio(
            client=client, limit=1, status=models.Status.SUCCEEDED, cursor=page.next_cursor
        )
        assert [each.id for each in older.items] == [submitted.id]
        assert older.next_cursor is None
        missing = await load("api.jobs.get_job").asyncio("job_00000000000000000000000000", client=client)
        assert (missing.status, missing.title) == (404, "Not Found")


async def submit_again(load: Any, client: Any, job: Any) -> None:
    """Submit a job, and wait for its end in the same call."""
    answer = await load("api.jobs.submit_job").asyncio_detailed(client=client, body=job, prefer="wait=20")
    assert (answer.status_code, answer.parsed.status) == (200, "succeeded")


async def test_generated_client_runs_a_model(stack: Stack, package: str) -> None:
    def load(name: str) -> Any:
        return import_module(f"{package}.{name}")

    key = await make_key(stack, "generated-client")
    models, client = load("models"), load("client").AuthenticatedClient(base_url=stack.url, token=key)
    async with client:
        tensor = {"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1]}
        request = models.InferRequest.from_dict({"inputs": [tensor]})
        infer = load("api.open_inference_protocol.infer")
        answer, refused = await asyncio.gather(
            infer.asyncio("echo", client=client, body=request), infer.asyncio("none", client=client, body=request)
        )
        assert [each.data for each in answer.outputs] == [[2.0]]
        assert refused.error.startswith("Request for unknown model: 'none'")
