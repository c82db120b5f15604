"""A model may be unloaded: its jobs wait for it at no cost, and no longer than they may, nor for ever."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx

from deploy.local.ports import HOST
from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.dispatching import dispatching
from tests.acceptance.metrics import wait_for_metric
from tests.acceptance.receiver import Receiver
from tests.acceptance.samples import work
from tests.acceptance.waiting import eventually

ONCE = {"max_attempts": 1}  # an attempt burnt would fail the job
SOON = timedelta(seconds=5)  # a lost doorbell would only be rung again after a minute


@asynccontextmanager
async def unloaded(stack: Stack, model: str) -> AsyncIterator[None]:
    """Triton without this model, which the dispatcher does not know yet; loaded again at the end."""
    async with httpx.AsyncClient(base_url=f"http://{HOST}:{stack.settings.triton_http_port}", timeout=20) as triton:

        async def look() -> bool:
            return not (await triton.get(f"/v2/models/{model}/ready")).is_success

        (await triton.post(f"/v2/repository/models/{model}/unload")).raise_for_status()
        try:
            await eventually(look, f"{model} is unloaded")
            yield
        finally:
            (await triton.post(f"/v2/repository/models/{model}/load")).raise_for_status()


async def test_jobs_wait_for_their_unloaded_model_at_no_cost(stack: Stack, api: Api) -> None:
    begun = await api.submit("work", work(1000), retry=ONCE)
    await wait_for_metric(stack.triton.metrics_url, "work_executions_total", 1, request_id=begun.id)
    async with unloaded(stack, "work"):
        early = [await api.submit("work", work(10), retry=ONCE) for _ in range(3)]

        async def look() -> bool:
            return not (await api.http.get("/v1/models/work")).json()["ready"]

        await eventually(look, "the catalogue says that the model is not ready")
        late = [await api.submit("work", work(10), retry=ONCE) for _ in range(3)]
        assert (await api.run("echo", {"x": [[1.0]]})).status == "succeeded"
        waiting = [await api.get(job.id) for job in (*early, *late)]
        assert [(job.status, job.attempt, job.started_at) for job in waiting] == [("queued", 0, None)] * 6
    back = datetime.now(UTC)
    jobs = [await api.wait(job.id) for job in (begun, *early, *late)]
    assert [(job.status, job.attempt) for job in jobs] == [("succeeded", 1)] * 7
    assert all(job.finished_at and job.finished_at < back + SOON for job in jobs)


async def test_a_job_of_a_removed_model_expires_in_time(stack: Stack, api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with unloaded(stack, "work"):
        # The dispatcher claims it once, because it does not know yet: that must not count as its start.
        submitted = await api.submit("work", work(10), expires_in=1, webhook={"url": inbox.url})
        job = await api.wait(submitted.id)
    assert (job.status, job.attempt, job.started_at) == ("expired", 0, None)
    assert job.expires_at is not None
    assert job.finished_at is not None
    assert timedelta(0) <= job.finished_at - job.expires_at < timedelta(seconds=2)
    (delivery,) = await inbox.wait()
    assert delivery.verify(await api.callback_secret()).type == "job.expired"


async def test_what_waits_for_a_model_that_does_not_come_back_fails(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    inbox = receiver.inbox()

    async def find() -> int:
        return (await api.http.get("/v1/models/work")).status_code

    async with dispatching(breakable, CHARONIA_MODEL_GRACE="1"):
        async with unloaded(breakable, "work"):
            later = (datetime.now(UTC) + timedelta(seconds=8)).isoformat()
            submitted = await api.submit("work", work(10), run_at=later, webhook={"url": inbox.url})
            await until(find, 404, "the model has left the catalogue")
            refused = await api.http.post("/v1/jobs", json={"model": "work", "inputs": work(10)})
            assert (refused.status_code, refused.json()["type"]) == (404, "urn:charonia:problem:model_not_found")
            job = await api.wait(submitted.id, within=90)  # at its next doorbell; a minute later, should it be early
        await until(find, 200, "the model is back")
        assert (await api.run("work", work(10))).status == "succeeded"
    assert (job.status, job.attempt, job.started_at) == ("failed", 0, None)
    assert job.error is not None
    assert job.error.code == "model_unavailable"
    (delivery,) = await inbox.wait()
    assert delivery.verify(await api.callback_secret()).type == "job.failed"
    assert (await api.http.get("/v1/dead-letters")).json()["items"][0]["id"] == job.id


async def until(find: Callable[[], Awaitable[int]], status: int, what: str) -> None:
    async def look() -> bool:
        return await find() == status

    await eventually(look, what)
