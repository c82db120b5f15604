"""Triton may die. Jobs wait for it and lose no attempt."""

import asyncio
from datetime import UTC, datetime

import httpx

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import work
from tests.support.telemetry.scraped_metrics import read_metric, wait_for_metric

ONCE = {"max_attempts": 1}  # a used attempt would fail the job


async def test_jobs_of_a_killed_triton_wait_for_it_without_using_an_attempt(breakable: Stack, api: Api) -> None:
    executions = breakable.triton.metrics_url, "work_executions_total"
    running = await api.submit("work", work(5000), retry=ONCE)
    await wait_for_metric(*executions, 1, request_id=running.id)
    await asyncio.to_thread(breakable.triton.kill)
    waiting = await api.wait(running.id, "queued")
    assert (waiting.attempt, waiting.error and waiting.error.code) == (0, "triton_unavailable")
    late = await api.submit("echo", {"x": [[1.0]]}, retry=ONCE)
    inferring = await begin_call(breakable, api)

    back = datetime.now(UTC)
    await asyncio.to_thread(breakable.triton.start)
    job = await api.wait(running.id)
    assert (job.status, job.attempt, job.error, job.output("slept")) == ("succeeded", 1, None, [5000])
    await wait_for_metric(*executions, 1, request_id=running.id)
    job = await api.wait(late.id)
    assert (job.status, job.attempt, job.output("y")) == ("succeeded", 1, [2.0])
    assert job.started_at is not None
    assert job.started_at > back
    assert [each["data"] for each in (await inferring).json()["outputs"]] == [[4.0]]


async def begin_call(stack: Stack, api: Api) -> asyncio.Task[httpx.Response]:
    """Call the Open Inference Protocol. Return the call once its job is accepted."""
    accepted = f"{stack.url}/metrics", "charonia_jobs_submitted_total"
    before = await read_metric(*accepted)
    tensor = {"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [2]}
    call = asyncio.create_task(api.http.post("/v2/models/echo/infer", json={"inputs": [tensor]}))
    await wait_for_metric(*accepted, before + 1)
    return call
