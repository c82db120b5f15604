"""PostgreSQL may die: nothing is accepted then, and nothing that was accepted is lost."""

import asyncio

from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.metrics import read_metric, wait_for_metric
from tests.acceptance.receiver import Receiver
from tests.acceptance.samples import work

SOON = 30.0  # seconds


async def test_a_job_that_runs_while_the_database_dies_keeps_its_result(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    inbox = receiver.inbox()
    executions = breakable.triton.metrics_url, "work_executions_total"
    inferred = f"{breakable.dispatchers[0].url}/metrics", "charonia_inference_seconds_count"
    before = await read_metric(*inferred, model="work")
    submitted = await api.submit("work", work(500), webhook={"url": inbox.url})
    await wait_for_metric(*executions, 1, request_id=submitted.id)
    await asyncio.to_thread(breakable.postgres.kill)

    refused = await api.http.post("/v1/jobs", json={"model": "echo", "inputs": {"x": [[1.0]]}})
    assert refused.json() == {
        "type": "urn:charonia:problem:unavailable",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "a service this one depends on does not answer, or too much is waiting; try again later",
        "instance": "/v1/jobs",
    }
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert (await api.http.get("/readyz")).status_code == 503
    assert (await api.http.get("/healthz")).status_code == 200

    await wait_for_metric(*inferred, before + 1, model="work")  # the result is there, with nowhere to go
    await asyncio.to_thread(breakable.postgres.start)
    job = await api.wait(submitted.id, within=SOON)
    assert (job.status, job.attempt, job.output("slept")) == ("succeeded", 1, [500])
    assert await read_metric(*executions, request_id=job.id) == 1
    (delivery,) = await inbox.wait(within=SOON)
    assert delivery.verify(await api.callback_secret()).data.id == job.id
