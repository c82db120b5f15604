"""A model may be unloaded. Its jobs use no attempts while they wait, and they do not wait for ever."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx

from deploy.local.processes.ports import HOST
from deploy.local.servers.model_control import KEY_HEADER
from deploy.local.servers.postgres import DATABASE
from deploy.local.stack import Stack
from services.dispatcher.quarantines.shared_quarantine import name_server
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import work
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.own_dispatcher import replace_dispatcher
from tests.support.telemetry.scraped_metrics import wait_for_metric
from tests.support.waiting import eventually

ONCE = {"max_attempts": 1}  # a used attempt would fail the job
SOON = timedelta(seconds=20)  # a lost wake-up would be repeated only after a minute
UNFINISHED = "(ended_at IS NULL OR reload_until IS NOT NULL)"


@asynccontextmanager
async def unloaded(stack: Stack, model: str) -> AsyncIterator[None]:
    """Unload a model from Triton before the dispatcher notices. Load it again at the end."""
    base_url, headers = f"http://{HOST}:{stack.settings.triton_http_port}", {KEY_HEADER: stack.triton.repository_key}
    async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=20) as triton:

        async def poll() -> bool:
            return not (await triton.get(f"/v2/models/{model}/ready")).is_success

        (await triton.post(f"/v2/repository/models/{model}/unload")).raise_for_status()
        try:
            await eventually(poll, f"{model} is unloaded")
            yield
        finally:
            (await triton.post(f"/v2/repository/models/{model}/load")).raise_for_status()


async def test_jobs_wait_for_an_unloaded_model_without_using_attempts(stack: Stack, api: Api) -> None:
    running = await api.submit("work", work(1000), retry=ONCE)
    await wait_for_metric(stack.triton.metrics_url, "work_executions_total", 1, request_id=running.id)
    async with unloaded(stack, "work"):
        early = [await api.submit("work", work(10), retry=ONCE) for _ in range(3)]

        async def poll() -> bool:
            return not (await api.http.get("/v1/models/work")).json()["ready"]

        await eventually(poll, "the catalogue says that the model is not ready")
        late = [await api.submit("work", work(10), retry=ONCE) for _ in range(3)]
        assert (await api.run("echo", {"x": [[1.0]]})).status == "succeeded"
        waiting = [await api.wait(job.id, "queued") for job in (*early, *late)]  # the first go back just now
        assert [(job.attempt, job.started_at) for job in waiting] == [(0, None)] * 6
    back = datetime.now(UTC)
    jobs = [await api.wait(job.id) for job in (running, *early, *late)]
    assert [(job.status, job.attempt) for job in jobs] == [("succeeded", 1)] * 7
    assert all(job.finished_at and job.finished_at < back + SOON for job in jobs)


async def test_job_of_an_unloaded_model_expires_on_time(stack: Stack, api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with unloaded(stack, "work"):
        # The dispatcher does not know yet and claims the job once. That must not count as its start.
        submitted = await api.submit("work", work(10), expires_in=1, webhook={"url": inbox.url})
        job = await api.wait(submitted.id)
    assert (job.status, job.attempt, job.started_at) == ("expired", 0, None)
    assert job.expires_at is not None
    assert job.finished_at is not None
    assert timedelta(0) <= job.finished_at - job.expires_at < SOON / 2
    (delivery,) = await inbox.wait()
    assert delivery.verify(await api.callback_secret()).type == "job.expired"


async def test_job_fails_when_its_model_does_not_return(breakable: Stack, api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()

    async def read_status() -> int:
        return (await api.http.get("/v1/models/work")).status_code

    async with replace_dispatcher(breakable, CHARONIA_MODEL_GRACE="1"):
        # Submitted before the model leaves the catalogue, a second after the unload, and due after that.
        later = (datetime.now(UTC) + timedelta(seconds=8)).isoformat()
        submitted = await api.submit("work", work(10), run_at=later, webhook={"url": inbox.url})
        async with unloaded(breakable, "work"):
            await wait_for_status(read_status, 404, "the model has left the catalogue")
            refused = await api.http.post("/v1/jobs", json={"model": "work", "inputs": work(10)})
            assert (refused.status_code, refused.json()["type"]) == (404, "urn:charonia:problem:model_not_found")
            # It fails at its next wake-up, which comes a minute later if the first is early.
            job = await api.wait(submitted.id, within=90)

        async def is_ready() -> bool:
            return (await api.http.get("/v1/models/work")).json().get("ready", False) is True

        await eventually(is_ready, "the model is in the catalogue again, and loaded")
        assert (await api.run("work", work(10))).status == "succeeded"
    assert (job.status, job.attempt, job.started_at) == ("failed", 0, None)
    assert job.error is not None
    assert job.error.code == "model_unavailable"
    (delivery,) = await inbox.wait()
    assert delivery.verify(await api.callback_secret()).type == "job.failed"
    assert (await api.http.get("/v1/dead-letters")).json()["items"][0]["id"] == job.id


async def wait_for_status(read_status: Callable[[], Awaitable[int]], status: int, description: str) -> None:
    async def poll() -> bool:
        return await read_status() == status

    await eventually(poll, description)


async def test_model_whose_reload_died_with_its_dispatcher_is_loaded_again(stack: Stack, api: Api) -> None:
    """The test unloads the model, and writes what a dispatcher leaves that is killed before it loads the model."""
    server = name_server(stack.triton.grpc_address, socket.gethostname())
    values = f"('{server}', 'echo', now(), now())"
    left = f"""
    INSERT INTO quarantines (server, model, ended_at, reload_until) VALUES {values}
    ON CONFLICT (server, model) DO UPDATE SET ended_at = now(), reload_until = now()
    """  # noqa: S608 - the server's name is the test's own
    async with unloaded(stack, "echo"):
        await asyncio.to_thread(stack.postgres.query, left, DATABASE)
        assert (await api.run("echo", {"x": [[1.0]]})).status == "succeeded"


async def test_no_healthy_model_is_reloaded_after_a_start_of_triton(breakable: Stack, api: Api) -> None:
    """A dispatcher claims two reloads, and is killed. Triton is started again, and PostgreSQL is frozen meanwhile."""
    stack, models = breakable, ("echo", "work")
    server = name_server(stack.triton.grpc_address, socket.gethostname())
    claimed = f"""
    INSERT INTO quarantines (server, model, executions, ended_at, reload_until)
    VALUES ('{server}', 'echo', 1000, now(), now()), ('{server}', 'work', 1000, NULL, now())
    ON CONFLICT (server, model) DO UPDATE
    SET number = quarantines.number + 1, executions = 1000, ended_at = excluded.ended_at, reload_until = now()
    """  # noqa: S608 - the server's name is the test's own
    await asyncio.to_thread(stack.dispatchers[0].kill)
    await asyncio.to_thread(stack.postgres.query, claimed, DATABASE)
    await asyncio.to_thread(stack.triton.kill)
    await asyncio.to_thread(stack.triton.start)
    async with httpx.AsyncClient(base_url=f"http://{HOST}:{stack.settings.triton_http_port}", timeout=20) as triton:

        async def notices_freeze() -> bool:
            return not (await triton.get(f"{stack.dispatchers[0].url}/readyz")).is_success

        tensor = {"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}
        inputs = {"echo": tensor, "work": {**tensor, "name": "ms", "datatype": "INT32", "data": [1]}}
        for model in models:
            (await triton.post(f"/v2/models/{model}/infer", json={"inputs": [inputs[model]]})).raise_for_status()

        async def has_counted() -> bool:  # Triton counts an execution after it has answered
            return [await count_executions(triton, model) for model in models] == [1, 1]

        await eventually(has_counted, "each model has run once")
        await asyncio.to_thread(stack.dispatchers[0].start)
        stack.postgres.process.freeze()
        await eventually(notices_freeze, "the dispatcher notices that PostgreSQL is frozen")
        stack.postgres.process.thaw()

        async def is_over() -> bool:
            left = f"SELECT count(*) FROM quarantines WHERE server = '{server}' AND {UNFINISHED}"  # noqa: S608 - as above
            return await asyncio.to_thread(stack.postgres.query, left, DATABASE) == "0"

        await eventually(is_over, "no reload is left")
        assert [await count_executions(triton, model) for model in models] == [1, 1]
    assert (await api.run("echo", {"x": [[1.0]]})).status == "succeeded"


async def count_executions(triton: httpx.AsyncClient, model: str) -> int:
    """Return how often a model ran since it was loaded."""
    answer = (await triton.get(f"/v2/models/{model}/stats")).raise_for_status()
    return sum(each["inference_stats"]["success"]["count"] for each in answer.json()["model_stats"])
