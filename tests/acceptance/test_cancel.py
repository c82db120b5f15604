"""A canceled job ends canceled: at once where it has not begun, and inside Triton too where it runs."""

import asyncio
from datetime import UTC, datetime, timedelta

from deploy.local.stack import Stack
from tests.acceptance.client import TERMINAL, Api, Job, read
from tests.acceptance.dispatching import dispatching
from tests.acceptance.metrics import read_metric, wait_for_metric
from tests.acceptance.receiver import Receiver
from tests.acceptance.samples import work

LONG = work(30_000)
SEEN = "work_cancelled_total"  # the model's own count of requests that it saw canceled


async def cancel(api: Api, job_id: str) -> Job:
    return read(await api.http.post(f"/v1/jobs/{job_id}/cancel"), 202, Job)


async def test_a_queued_job_is_canceled_at_once_and_tells_so(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    job = await api.submit("echo", {"x": [[1.0]]}, run_at=tomorrow, webhook={"url": inbox.url})
    canceled = await cancel(api, job.id)
    assert (canceled.status, canceled.attempt, canceled.started_at) == ("canceled", 0, None)
    assert (await api.get(job.id)).status == "canceled"
    (delivery,) = await inbox.wait()
    event = delivery.verify(await api.callback_secret())
    assert (event.type, event.data.id, event.data.status) == ("job.canceled", job.id, "canceled")


async def test_a_canceled_job_is_no_dead_letter(api: Api) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    job = await api.submit("echo", {"x": [[1.0]]}, run_at=tomorrow)
    await cancel(api, job.id)
    replayed = await api.http.post("/v1/dead-letters/replay", json={"ids": [job.id]})
    assert (replayed.status_code, replayed.json()) == (
        202,
        {"replayed": [], "skipped": [job.id], "remaining": False},
    )
    assert (await api.get(job.id)).status == "canceled"


async def test_a_running_job_is_canceled_inside_triton(stack: Stack, api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    before = await read_metric(stack.triton.metrics_url, SEEN)
    job = await api.submit("work", LONG, webhook={"url": inbox.url})
    await api.wait(job.id, "processing")
    assert (await cancel(api, job.id)).status == "canceling"
    ended = await api.wait(job.id)
    assert (ended.status, ended.attempt, ended.outputs, ended.error) == ("canceled", 1, None, None)
    await wait_for_metric(stack.triton.metrics_url, SEEN, before + 1)
    (delivery,) = await inbox.wait()
    assert delivery.verify(await api.callback_secret()).type == "job.canceled"


async def test_a_cancel_does_not_wait_for_the_next_heartbeat(breakable: Stack, api: Api) -> None:
    async with dispatching(breakable, CHARONIA_LEASE="3600"):
        job = await api.submit("work", LONG)
        await api.wait(job.id, "processing")
        assert (await cancel(api, job.id)).status == "canceling"
        assert (await api.wait(job.id)).status == "canceled"


async def test_a_second_cancel_changes_nothing_and_one_after_the_end_is_a_conflict(api: Api, stranger: Api) -> None:
    job = await api.submit("work", LONG)
    await api.wait(job.id, "processing")
    await cancel(api, job.id)
    again = await api.http.post(f"/v1/jobs/{job.id}/cancel")
    assert again.status_code in (202, 409)
    await api.wait(job.id)
    late = await api.http.post(f"/v1/jobs/{job.id}/cancel")
    assert late.headers["content-type"] == "application/problem+json"
    assert late.json() == {
        "type": "urn:charonia:problem:conflict",
        "title": "Conflict",
        "status": 409,
        "detail": "the job has ended already: it is canceled",
        "instance": f"/v1/jobs/{job.id}/cancel",
    }
    assert (await stranger.http.post(f"/v1/jobs/{job.id}/cancel")).status_code == 404
    assert (await api.http.post("/v1/jobs/job_nonsense/cancel")).status_code == 404


async def test_a_cancel_whose_dispatcher_died_takes_effect_all_the_same(breakable: Stack, api: Api) -> None:
    job = await api.submit("work", LONG)
    await api.wait(job.id, "processing")
    await asyncio.to_thread(breakable.dispatchers[0].kill)
    assert (await cancel(api, job.id)).status == "canceling"
    await asyncio.to_thread(breakable.dispatchers[0].start)
    assert (await api.wait(job.id)).status == "canceled"


async def test_a_cancel_that_races_with_the_end_leaves_one_state_and_one_event(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    jobs = [await api.submit("work", work(5 * number), webhook={"url": inbox.url}) for number in range(12)]
    answers = await asyncio.gather(*(api.http.post(f"/v1/jobs/{job.id}/cancel") for job in jobs))
    assert {answer.status_code for answer in answers} <= {202, 409}
    ended = {job.id: (await api.wait(job.id)).status for job in jobs}
    deliveries = await inbox.wait(len(jobs))
    secret = await api.callback_secret()
    told = [(event.data.id, event.data.status) for event in (each.verify(secret) for each in deliveries)]
    assert sorted(told) == sorted(ended.items())
    assert set(ended.values()) <= {"succeeded", "canceled"} <= set(TERMINAL)
