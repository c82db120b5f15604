"""Ended jobs are kept for the retention time and then removed."""

from datetime import UTC, datetime, timedelta

from deploy.local.stack import Stack
from tests.support.api_client import Api
from tests.support.own_dispatcher import replace_dispatcher
from tests.support.waiting import eventually
from tests.support.webhook_receiver import Receiver


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
