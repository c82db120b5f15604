"""A client that openapi-python-client generates from the document works: jobs, models and batches."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.stacks.key_command import make_key

PACKAGE = "generated_charonia_client"
JOB = {"model": "echo", "inputs": {"x": [[1, 2, 3]]}, "metadata": {"order": 4711}}
CONFIG = f"package_name_override: {PACKAGE}\n"
# The generator knows no JSON lines, and no answers of any type. They are left out, and JSON is left.
WARNINGS = [
    "WARNING parsing GET /openai/v1/files/{openai_file_id}/content within open_ai.",
    "WARNING parsing GET /v1/batches/{batch_id}/results within batches.",
    *2 * ["WARNING parsing GET /v1/files/{file_id}/content within files."],
    "WARNING parsing POST /v1/batches within batches.",
]


@pytest.fixture(scope="module")
def package(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The generated package, without a warning of the generator but for JSON lines."""
    folder = tmp_path_factory.mktemp("generated")
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    document = folder / "openapi.json"
    document.write_bytes(httpx.get(f"{stack.url}/openapi.json", timeout=30).content)
    command = [
        str(Path(sys.executable).with_name("openapi-python-client")),
        "generate",
        "--path",
        str(document),
        "--meta",
        "none",
        "--config",
        str(config),
        "--output-path",
        str(folder / PACKAGE),
    ]
    path = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}  # for ruff, which formats the package
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=folder, env=path)
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-5000:]
    warnings = [line for line in (run.stdout + run.stderr).splitlines() if line.startswith(("WARNING", "ERROR"))]
    assert sorted(warnings) == WARNINGS, run.stdout[-5000:]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(folder)
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


def test_the_guides_examples_run_and_show_a_refusal(
    stack: Stack, package: str, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = (ROOT / "docs" / "how-to" / "generate-a-client.md").read_text()
    guide = guide.replace("charonia_client", package).replace("http://localhost:8080", stack.url)
    jobs, batches = re.findall(r"^```python\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    for example, shown in ((jobs, "[2.0, 4.0, 6.0]"), (batches, "row-7 [14.0]")):
        exec(example, {})  # noqa: S102 -- that is what its readers do
        assert shown in capsys.readouterr().out
        with pytest.raises(SystemExit, match="model 'nobody' not found"):
            exec(example.replace('"model": "echo"', '"model": "nobody"'), {})  # noqa: S102


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


async def test_generated_client_runs_a_batch(stack: Stack, package: str) -> None:
    """Jobs keep the defaults of the batch, and results are read line by line."""

    def load(name: str) -> Any:
        return import_module(f"{package}.{name}")

    key = await make_key(stack, "generated-client")
    models, client = load("models"), load("client").AuthenticatedClient(base_url=stack.url, token=key)
    async with client:
        defaults = models.DefaultsLine.from_dict({"defaults": {"model": "echo", "timeout": 20, "priority": "low"}})
        inputs = [models.BatchJobInputsType0.from_dict({"x": [[value]]}) for value in (1, 2)]
        jobs = [models.BatchJob(inputs=each, custom_id=f"row-{index}") for index, each in enumerate(inputs)]
        batch = await load("api.batches.submit_batch").asyncio(client=client, body=[defaults, *jobs])
        assert (batch.accepted, batch.errors) == (2, [])
        assert jobs[0].to_dict().keys() == {"inputs", "custom_id"}
        ended = await load("api.batches.get_batch").asyncio(batch.id, client=client, wait=20)
        assert ended.status == "completed"
        answer = await load("api.batches.get_batch_results").asyncio_detailed(batch.id, client=client)
        results = [models.BatchResult.from_dict(json.loads(line)) for line in answer.content.splitlines()]
    assert [(each.custom_id, each.job.outputs[0].data) for each in results] == [("row-0", [2.0]), ("row-1", [4.0])]
    assert {each.job.priority for each in results} == {"low"}
