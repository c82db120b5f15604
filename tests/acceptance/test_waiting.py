"""A client may wait for a job's end: it is told at once, by whichever gateway, with the broker or without."""

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.acceptance.client import Api, Job, read
from tests.acceptance.metrics import wait_for_metric
from tests.acceptance.samples import work

ECHO = {"model": "echo", "inputs": {"x": [[1.0]]}}
LATE = 10.0  # seconds: the slow look that finds lost rings comes after 15


@pytest.fixture
async def patient(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    """A client that has the time."""
    headers = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=90) as client:
        yield client


async def test_a_submit_that_prefers_to_wait_is_answered_with_the_end(patient: httpx.AsyncClient) -> None:
    answer = await patient.post("/v1/jobs", json=ECHO, headers={"Prefer": "respond-async, wait=60"})
    job = read(answer, 200, Job)
    assert (answer.headers["preference-applied"], answer.headers["location"]) == ("wait=60", f"/v1/jobs/{job.id}")
    assert job.status == "succeeded"
    assert job.outputs is not None
    assert job.outputs[0].data == [2.0]


async def test_a_submit_is_accepted_where_its_end_does_not_come_in_time(patient: httpx.AsyncClient, api: Api) -> None:
    asked = {"model": "work", "inputs": work(3000)}
    began = time.monotonic()
    answer = await patient.post("/v1/jobs", json=asked, headers={"Prefer": "wait=1"})
    assert time.monotonic() - began >= 1
    job = read(answer, 202, Job)
    assert "preference-applied" not in answer.headers
    assert (await api.wait(job.id)).status == "succeeded"


async def test_a_status_waits_for_the_end_and_no_longer(patient: httpx.AsyncClient, api: Api) -> None:
    submitted = await api.submit("work", work(1500))
    early = read(await patient.get(f"/v1/jobs/{submitted.id}", params={"wait": "0.2"}), 200, Job)
    assert early.finished_at is None
    began = time.monotonic()
    job = read(await patient.get(f"/v1/jobs/{submitted.id}?wait=60"), 200, Job)
    assert job.status == "succeeded"
    assert time.monotonic() - began < LATE
    ended = time.monotonic()
    assert read(await patient.get(f"/v1/jobs/{submitted.id}?wait=60"), 200, Job) == job
    assert time.monotonic() - ended < LATE


async def test_a_cancel_is_an_end(patient: httpx.AsyncClient, api: Api) -> None:
    submitted = await api.submit("work", work(30_000))
    waiting = asyncio.create_task(patient.get(f"/v1/jobs/{submitted.id}?wait=60"))
    await api.wait(submitted.id, "processing")
    began = time.monotonic()
    read(await api.http.post(f"/v1/jobs/{submitted.id}/cancel"), 202, Job)
    assert read(await waiting, 200, Job).status == "canceled"
    assert time.monotonic() - began < LATE


async def test_a_wait_ends_without_the_broker_too(breakable: Stack, patient: httpx.AsyncClient, api: Api) -> None:
    submitted = await api.submit("work", work(3000))
    await wait_for_metric(breakable.triton.metrics_url, "work_executions_total", 1, request_id=submitted.id)
    await asyncio.to_thread(breakable.rabbitmq.kill)
    began = time.monotonic()
    job = read(await patient.get(f"/v1/jobs/{submitted.id}?wait=60"), 200, Job)
    assert job.status == "succeeded"
    assert time.monotonic() - began < 2 * LATE


@pytest.mark.parametrize("wait", ["61", "-1", "soon", "nan", "inf"])
async def test_nobody_waits_longer_than_a_minute(patient: httpx.AsyncClient, wait: str) -> None:
    answer = await patient.get("/v1/jobs/job_01m7ykkne6etvsdz4ehv4dsk25", params={"wait": wait})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "wait"
