"""A queued job is canceled at once. A running job is canceled inside Triton."""

import asyncio
from datetime import UTC, datetime, timedelta

from deploy.local.stack import Stack
from tests.support.api.api_client import TERMINAL, Api, Job, read
from tests.support.api.model_inputs import work
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.telemetry.scraped_metrics import read_metric, wait_for_metric

LONG_WORK = work(30_000)
CANCELLED = "work_cancelled_total"  # the model's own count of the requests that it saw canceled


async def cancel(api: Api, job_id: str) -> Job:
    return read(await api.http.post(f"/v1/jobs/{job_id}/cancel"), 202, Job)


async def test_queued_job_is_canceled_at_once_and_sends_a_webhook(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    job = await api.submit("echo", {"x": [[1.0]]}, run_at=tomorrow, webhook={"url": inbox.url})
    canceled = await cancel(api, job.id)
    assert (canceled.status, canceled.attempt, canceled.started_at) == ("canceled", 0, None)
    assert (await api.get(job.id)).status == "canceled"
    (delivery,) = await inbox.wait()
    event = delivery.verify(await api.callback_secret())
    assert (event.type, event.data.id, event.data.status) == ("job.canceled", job.id, "canceled")


async def test_canceled_job_is_not_a_dead_letter(api: Api) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    job = await api.submit("echo", {"x": [[1.0]]}, run_at=tomorrow)
    await cancel(api, job.id)
    replayed = await api.http.post("/v1/dead-letters/replay", json={"ids": [job.id]})
    skipped = {"id": job.id, "code": "not_failed", "detail": "the job is canceled; only a failed job is a dead letter"}
    assert (replayed.status_code, replayed.json()) == (202, {"replayed": [], "skipped": [skipped], "remaining": False})
    assert (await api.get(job.id)).status == "canceled"


async def test_running_job_is_canceled_inside_triton(stack: Stack, api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    before = await read_metric(stack.triton.metrics_url, CANCELLED)
    job = await api.submit("work", LONG_WORK, webhook={"url": inbox.url})
    await wait_for_metric(stack.triton.metrics_url, "work_executions_total", 1, request_id=job.id)
    assert (await cancel(api, job.id)).status == "canceling"
    ended = await api.wait(job.id)
    assert (ended.status, ended.attempt, ended.outputs, ended.error) == ("canceled", 1, None, None)
    await wait_for_metric(stack.triton.metrics_url, CANCELLED, before + 1)
    (delivery,) = await inbox.wait()
    assert delivery.verify(await api.callback_secret()).type == "job.canceled"


async def test_canceled_job_holds_up_no_job_of_its_batch(api: Api) -> None:
    first = await api.submit("work", work(500))
    long = await api.submit("work", LONG_WORK)  # waits for the first inside Triton, in one batch with the next
    short = await api.submit("work", work(10))
    await api.wait(first.id)
    await cancel(api, long.id)
    assert (await api.wait(short.id, within=20)).status == "succeeded"
    assert (await api.wait(long.id)).status == "canceled"


async def test_second_cancel_changes_nothing_and_late_cancel_is_a_conflict(api: Api, other_tenant: Api) -> None:
    job = await api.submit("work", LONG_WORK)
    await api.wait(job.id, "processing")
    await cancel(api, job.id)
    again = await api.http.post(f"/v1/jobs/{job.id}/cancel")
    assert again.status_code in (202, 409)
    await api.wait(job.id)
    refused = await api.http.post(f"/v1/jobs/{job.id}/cancel")
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json() == {
        "type": "urn:charonia:problem:conflict",
        "title": "Conflict",
        "status": 409,
        "detail": "the job is canceled; only a job that has not ended can be canceled",
        "instance": f"/v1/jobs/{job.id}/cancel",
    }
    assert (await other_tenant.http.post(f"/v1/jobs/{job.id}/cancel")).status_code == 404
    assert (await api.http.post("/v1/jobs/job_nonsense/cancel")).status_code == 404


async def test_cancel_takes_effect_when_the_dispatcher_dies(breakable: Stack, api: Api) -> None:
    job = await api.submit("work", LONG_WORK)
    await api.wait(job.id, "processing")
    await asyncio.to_thread(breakable.dispatchers[0].kill)
    assert (await cancel(api, job.id)).status == "canceling"
    await asyncio.to_thread(breakable.dispatchers[0].start)
    assert (await api.wait(job.id)).status == "canceled"


async def test_cancel_that_races_with_the_end_leaves_one_state_and_one_event(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    jobs = [await api.submit("work", work(5 * number), webhook={"url": inbox.url}) for number in range(12)]
    responses = await asyncio.gather(*(api.http.post(f"/v1/jobs/{job.id}/cancel") for job in jobs))
    assert {response.status_code for response in responses} <= {202, 409}
    ended = {job.id: (await api.wait(job.id)).status for job in jobs}
    deliveries = await inbox.wait(len(jobs))
    secret = await api.callback_secret()
    webhooks = [(event.data.id, event.data.status) for event in (each.verify(secret) for each in deliveries)]
    assert sorted(webhooks) == sorted(ended.items())
    assert set(ended.values()) <= {"succeeded", "canceled"} <= set(TERMINAL)
