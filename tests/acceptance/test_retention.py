"""What has ended is kept for its time and then removed."""

from datetime import UTC, datetime, timedelta

from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.dispatching import dispatching
from tests.acceptance.receiver import Receiver
from tests.acceptance.waiting import eventually


async def test_a_job_is_removed_once_it_has_ended_for_long_enough(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    waiting = await api.submit("echo", {"x": [[1.0]]}, run_at=tomorrow)
    ended = await api.run("echo", {"x": [[1.0]]}, webhook={"url": receiver.inbox().url})
    assert (await api.wait_for_webhooks(ended.id)).webhook_status == "succeeded"

    async def gone() -> bool:
        return (await api.http.get(f"/v1/jobs/{ended.id}")).status_code == 404

    async with dispatching(breakable, CHARONIA_RETENTION="0.001"):
        await eventually(gone, "the job that has ended is removed", within=120.0)  # after all the others of the session
    assert (await api.get(waiting.id)).status == "queued"
    await api.http.post(f"/v1/jobs/{waiting.id}/cancel")
