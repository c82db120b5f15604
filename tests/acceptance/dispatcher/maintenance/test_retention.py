"""Ended jobs are kept for the retention time and then removed."""

from datetime import UTC, datetime, timedelta

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.own_dispatcher import replace_dispatcher
from tests.support.waiting import eventually


async def test_ended_job_is_removed_after_its_retention(breakable: Stack, api: Api, receiver: Receiver) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    waiting = await api.submit("echo", {"x": [[1.0]]}, run_at=tomorrow)
    ended = await api.run("echo", {"x": [[1.0]]}, webhook={"url": receiver.inbox().url})
    assert (await api.wait_for_webhooks(ended.id)).webhook_status == "succeeded"

    async def is_removed() -> bool:
        return (await api.http.get(f"/v1/jobs/{ended.id}")).status_code == 404

    async with replace_dispatcher(breakable, CHARONIA_RETENTION="0.001"):
        await eventually(is_removed, "the ended job is removed", within=120.0)  # all other jobs of the session go first
    assert (await api.get(waiting.id)).status == "queued"
    await api.http.post(f"/v1/jobs/{waiting.id}/cancel")


async def test_job_is_removed_after_its_own_retention(api: Api, other_tenant: Api) -> None:
    brief = await api.submit("echo", {"x": [[1.0]]}, retain=1)  # only a job that has ended is removed
    kept = await api.run("echo", {"x": [[1.0]]}, retain=3600)
    item = {"model": "echo", "inputs": {"x": [[1.0]]}, "retain": 1}
    batch = (await other_tenant.http.post("/v1/batches", json=[item])).json()["id"]

    async def are_removed() -> bool:
        job, batched = (
            await api.http.get(f"/v1/jobs/{brief.id}"),
            await other_tenant.http.get(f"/v1/batches/{batch}"),
        )
        return {job.status_code, batched.status_code} == {404}

    await eventually(are_removed, "the job and the batch are removed", within=90.0)  # two passes
    assert (await api.get(kept.id)).status == "succeeded"


async def test_retention_of_no_time_is_refused(api: Api) -> None:
    refused = await api.http.post("/v1/jobs", json={"model": "echo", "inputs": {"x": [[1.0]]}, "retain": 0})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/retain")
