"""A pipeline whose steps run on two Triton servers, each with a dispatcher and a model of its own."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from deploy.local.processes.ports import free_ports
from deploy.local.servers.server import Server
from deploy.local.servers.triton import Triton
from deploy.local.services import DEVELOPMENT_KEY, REPOSITORY_KEY, Service
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.acceptance.conftest import ENVIRONMENT, open_client
from tests.conftest import running
from tests.support.api.api_client import Api, Job
from tests.support.stacks.guest_stack import GuestStack
from tests.support.telemetry.scraped_metrics import read_metric
from tests.support.waiting import eventually

ONCE = {"max_attempts": 1}  # a used attempt would fail the run
NEAR, FAR = "work", "far_work"
PIPELINE = {
    "inputs": {"ms": {"datatype": "INT32", "shape": [-1, 1]}},
    "steps": {
        "rows": {"model": NEAR, "inputs": {"ms": "$inputs.ms"}, "for_each": "ms", "retry": ONCE},
        "far": {"model": FAR, "inputs": {"ms": "$inputs.ms"}, "for_each": "ms", "retry": ONCE},
        "both": {"model": FAR, "inputs": {"ms": "$rows.slept"}, "retry": ONCE},
        "last": {"model": NEAR, "inputs": {"ms": "$both.slept"}, "retry": ONCE},
    },
    "outputs": {"far": "$far.slept", "last": "$last.slept"},
}
SENT = [[1], [2], [3]]
SLEPT = [value for row in SENT for value in row]


@pytest.fixture(scope="module")
def far_triton(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A second server, which has only the model FAR."""
    folder = tmp_path_factory.mktemp("far")
    model = folder / "models" / FAR
    shutil.copytree(stack.settings.model_repository / NEAR, model)
    settings = (model / "config.pbtxt").read_text()
    (model / "config.pbtxt").write_text(settings.replace(f'name: "{NEAR}"', f'name: "{FAR}"', 1))
    grpc, http, metrics = free_ports(3)
    server = Triton(
        folder / "stack",
        folder / "models",
        grpc,
        http,
        metrics,
        stack.settings.triton_venv,
        model_control="explicit",
        repository_key=stack.environment[REPOSITORY_KEY],
        name="far-triton",
    )
    with running(server):
        yield server


@pytest.fixture(scope="module")
def pools(stack: Stack, far_triton: Triton, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose second dispatcher belongs to the second server."""
    settings = Settings.private(tmp_path_factory.mktemp("pools"), dispatchers=2)
    pools = GuestStack(stack, replace(settings, environment=ENVIRONMENT))
    environment = pools.environment | {"CHARONIA_TRITON_URL": far_triton.grpc_address}
    pools.dispatchers[1] = Service(
        "dispatcher", pools.dispatchers[1].port, environment, pools.log_dir, name="dispatcher-far"
    )
    try:
        with pools:
            yield pools
    finally:
        pools.postgres.delete()


@pytest.fixture
async def api(pools: Stack) -> AsyncIterator[Api]:
    async with open_client(pools, DEVELOPMENT_KEY) as api:
        await eventually(lambda: store(api), "both models are in the catalogue")
        yield api


async def store(api: Api) -> bool:
    return (await api.http.put("/v1/pipelines/pools", json=PIPELINE)).status_code in (200, 201)


async def wait_for_rows(api: Api, run: str) -> Job:
    """Return the run once its step `rows` has succeeded."""

    async def poll() -> Job | None:
        job = await api.get(run)
        assert job.steps is not None
        return job if job.steps["rows"].status == "succeeded" else None

    return await eventually(poll, "the rows have succeeded")


@pytest.mark.parametrize("away", ["triton", "dispatcher"])
async def test_a_run_waits_for_a_server_that_is_away(
    api: Api, pools: Stack, stack: Stack, far_triton: Triton, away: str
) -> None:
    server: Server = {"triton": far_triton, "dispatcher": pools.dispatchers[1]}[away]
    await asyncio.to_thread(server.kill)
    run = await api.submit("pools", {"ms": SENT})
    going_on = await wait_for_rows(api, run.id)  # they are on the other server
    assert going_on.steps is not None
    waiting = going_on.steps["both"].job
    assert waiting is not None

    async def poll() -> Job | None:
        job = await api.get(waiting)
        return job if job.waiting_for is not None and job.waiting_for.code == away else None

    step = await eventually(poll, f"the job of the step says that it waits for its {away}")
    assert (step.status, step.attempt, step.model) == ("queued", 0, FAR)
    assert (await api.get(run.id)).status == "processing"

    await asyncio.to_thread(server.start)
    ended = await api.wait(run.id)
    assert (ended.status, ended.error) == ("succeeded", None)
    assert (ended.output("far"), ended.output("last")) == (SLEPT, SLEPT)
    jobs = await api.list_all_jobs(parent=run.id)
    assert len(jobs) == 2 * len(SENT) + 2
    for job in jobs:
        triton = far_triton if job.model == FAR else stack.triton
        executions = await read_metric(triton.metrics_url, "work_executions_total", request_id=job.id)
        assert (job.attempt, executions) == (1, 1), job
