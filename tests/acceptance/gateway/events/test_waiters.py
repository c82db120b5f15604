"""A client may wait for the end of a job. It gets the job at once from any gateway, even without the broker."""

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job, read
from tests.support.api.model_inputs import work
from tests.support.telemetry.scraped_metrics import wait_for_metric

ECHO = {"model": "echo", "inputs": {"x": [[1.0]]}}
TOO_LATE = 10.0  # seconds: the slow poll that finds lost changes comes after 15


@pytest.fixture
async def waiting_client(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a long timeout."""
    headers = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=90) as client:
        yield client


async def test_submit_with_prefer_wait_returns_the_ended_job(waiting_client: httpx.AsyncClient) -> None:
    response = await waiting_client.post("/v1/jobs", json=ECHO, headers={"Prefer": "respond-async, wait=60"})
    job = read(response, 200, Job)
    assert (response.headers["preference-applied"], response.headers["location"]) == ("wait=60", f"/v1/jobs/{job.id}")
    assert job.status == "succeeded"
    assert job.outputs is not None
    assert job.outputs[0].data == [2.0]


async def test_submit_with_prefer_wait_is_accepted_if_the_job_takes_longer(
    waiting_client: httpx.AsyncClient, api: Api
) -> None:
    request = {"model": "work", "inputs": work(60_000)}
    began = time.monotonic()
    response = await waiting_client.post("/v1/jobs", json=request, headers={"Prefer": "wait=1"})
    assert time.monotonic() - began >= 1
    job = read(response, 202, Job)
    assert "preference-applied" not in response.headers
    assert (await api.get(job.id)).status in ("queued", "processing")
    read(await api.http.post(f"/v1/jobs/{job.id}/cancel"), 202, Job)
    await api.wait(job.id)


async def test_get_with_wait_returns_as_soon_as_the_job_ends(waiting_client: httpx.AsyncClient, api: Api) -> None:
    submitted = await api.submit("work", work(4000))
    early = read(await waiting_client.get(f"/v1/jobs/{submitted.id}", params={"wait": "0.2"}), 200, Job)
    assert early.finished_at is None
    began = time.monotonic()
    job = read(await waiting_client.get(f"/v1/jobs/{submitted.id}?wait=60"), 200, Job)
    assert job.status == "succeeded"
    assert time.monotonic() - began < TOO_LATE
    ended = time.monotonic()
    assert read(await waiting_client.get(f"/v1/jobs/{submitted.id}?wait=60"), 200, Job) == job
    assert time.monotonic() - ended < TOO_LATE


async def test_wait_ends_when_the_job_is_canceled(waiting_client: httpx.AsyncClient, api: Api) -> None:
    submitted = await api.submit("work", work(30_000))
    waiting = asyncio.create_task(waiting_client.get(f"/v1/jobs/{submitted.id}?wait=60"))
    await api.wait(submitted.id, "processing")
    began = time.monotonic()
    read(await api.http.post(f"/v1/jobs/{submitted.id}/cancel"), 202, Job)
    assert read(await waiting, 200, Job).status == "canceled"
    assert time.monotonic() - began < TOO_LATE


async def test_wait_ends_without_the_broker(breakable: Stack, waiting_client: httpx.AsyncClient, api: Api) -> None:
    submitted = await api.submit("work", work(3000))
    await wait_for_metric(breakable.triton.metrics_url, "work_executions_total", 1, request_id=submitted.id)
    await asyncio.to_thread(breakable.rabbitmq.freeze)
    try:
        began = time.monotonic()
        job = read(await waiting_client.get(f"/v1/jobs/{submitted.id}?wait=60"), 200, Job)
        assert job.status == "succeeded"
        assert time.monotonic() - began < 2 * TOO_LATE
    finally:
        await asyncio.to_thread(breakable.rabbitmq.thaw)


@pytest.mark.parametrize("wait", ["61", "-1", "soon", "nan", "inf"])
async def test_waits_over_a_minute_are_refused(waiting_client: httpx.AsyncClient, wait: str) -> None:
    response = await waiting_client.get("/v1/jobs/job_01m7ykkne6etvsdz4ehv4dsk25", params={"wait": wait})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "wait"
