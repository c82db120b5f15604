"""Ended jobs are kept for the retention time and then removed."""

from datetime import UTC, datetime, timedelta
from functools import partial

from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.own_dispatcher import replace_dispatcher
from tests.support.waiting import eventually

ECHO = {"x": [[1.0]]}


async def test_ended_jobs_are_removed_after_their_retention(breakable: Stack, api: Api, receiver: Receiver) -> None:
    """A dispatcher looks for them at its start."""
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    waiting = await api.submit("echo", ECHO, run_at=tomorrow)
    ended = await api.run("echo", ECHO, webhook={"url": receiver.inbox().url})
    assert (await api.wait_for_webhooks(ended.id)).webhook_status == "succeeded"

    async def is_removed(job: Job) -> bool:
        return (await api.http.get(f"/v1/jobs/{job.id}")).status_code == 404

    async with replace_dispatcher(breakable, CHARONIA_RETENTION="0.001"):
        # All other jobs of the session go first.
        await eventually(partial(is_removed, ended), "the ended job is removed", within=120.0)
    assert (await api.get(waiting.id)).status == "queued"
    await api.http.post(f"/v1/jobs/{waiting.id}/cancel")


async def test_retention_of_no_time_is_refused(api: Api) -> None:
    refused = await api.http.post("/v1/jobs", json={"model": "echo", "inputs": ECHO, "retain": 0})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/retain")
