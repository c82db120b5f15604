"""A client can erase the inputs and outputs of a job. Nothing of them is left."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import httpx

from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job
from tests.support.database.database_columns import find_columns
from tests.support.receivers.threaded_server import Reply
from tests.support.receivers.webhook_receiver import Receiver

FAILING = 500
SUBSCRIBED = ["job.*", "delivery.exhausted"]


async def find_secret(stack: Stack, secret: str) -> list[str]:
    connection = await asyncpg.connect(stack.postgres.url)
    try:
        return await find_columns(connection, secret)
    finally:
        await connection.close()


async def erase(api: Api, job: Job) -> None:
    response = await api.http.post(f"/v1/jobs/{job.id}/erase")
    assert (response.status_code, response.content) == (204, b"")


async def test_erased_payload_is_in_no_table(stack: Stack, api: Api, other_tenant: Api, own_receiver: Receiver) -> None:
    """Jobs succeeded and failed. Receivers echoed the payload, got it, or are still to get it."""
    secret, key = f"secret{uuid4().hex}", str(uuid4())
    echoing = own_receiver.inbox(*[Reply(FAILING, body=secret.encode())] * 5)
    operational, failing = own_receiver.inbox(), own_receiver.inbox(*[FAILING] * 5)
    personal = {"metadata": {"name": secret}, "parameters": {"name": secret}, "webhook": {"url": echoing.url}}
    request = {"model": "tokens", "inputs": {"text": [f"say {secret}"]}, **personal}
    async with (
        api.subscribed(operational.url, events=SUBSCRIBED),
        api.subscribed(failing.url, events=["job.succeeded"]),
    ):
        first = await api.post(request, {"Idempotency-Key": key})
        succeeded = await api.wait(first.id)
        assert secret in str(succeeded.outputs)
        failed = await api.run("faulty", {"mode": [secret]}, metadata={"name": secret})
        assert secret in (failed.error.message if failed.error else "")
        await operational.wait(2 * 2 + 1)  # five webhooks: one says that the callback was given up
        assert await find_secret(stack, secret) != []
        for job in (succeeded, failed):
            assert (await other_tenant.http.post(f"/v1/jobs/{job.id}/erase")).status_code == 404
            await erase(api, job)
            await erase(api, job)
        assert await find_secret(stack, secret) == []

    erased = await api.get(succeeded.id)
    assert (erased.status, erased.outputs, erased.metadata) == ("succeeded", None, {})
    assert (erased.finished_at, erased.webhook_status) == (succeeded.finished_at, "none")
    assert (await api.list_deliveries(f"/v1/jobs/{succeeded.id}")).items == []
    assert (await api.http.post(f"/v1/jobs/{failed.id}/retry")).status_code == 409
    assert (await api.http.post(f"/v1/jobs/{failed.id}/retry", json={"target_model": "echo"})).status_code == 409
    again = await api.post(request, {"Idempotency-Key": key})
    assert (again.id, again.metadata) == (succeeded.id, {})
    assert await find_secret(stack, secret) == []


async def test_no_webhook_is_sent_after_the_erasure(api: Api, own_receiver: Receiver) -> None:
    """The receiver has failed, so another attempt was planned. It would come within the schedule of the other job."""
    later = Reply(503, {"retry-after": "3"})  # time for the erasure
    inbox = own_receiver.inbox(later, later, *[FAILING] * 18)
    job = await api.run("echo", {"x": [[1.0]]}, webhook={"url": inbox.url})
    await inbox.wait()
    await erase(api, job)
    sent = len(inbox.deliveries)
    assert sent < 5  # more attempts were to come
    other = await api.run("echo", {"x": [[2.0]]}, webhook={"url": inbox.url})
    assert (await api.wait_for_webhooks(other.id)).webhook_status == "failed"  # a whole schedule has passed
    secret = await api.callback_secret()
    assert {each.verify(secret).data.id for each in inbox.deliveries[sent:]} == {other.id}


async def test_only_ended_jobs_are_erased_and_their_outputs_urls_stop_working(api: Api, own_receiver: Receiver) -> None:
    inbox = own_receiver.inbox()
    inputs = {"x": [[1 / 3] * 60_000]}  # as JSON, the outputs are too large for a webhook
    job = await api.submit("echo", inputs, webhook={"url": inbox.url})
    waiting = await api.submit("echo", {"x": [[1.0]]}, run_at=(datetime.now(UTC) + timedelta(days=1)).isoformat())
    refused = await api.http.post(f"/v1/jobs/{waiting.id}/erase")
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:charonia:problem:conflict")
    await api.http.post(f"/v1/jobs/{waiting.id}/cancel")
    await erase(api, waiting)
    event = (await inbox.wait())[0].verify(await api.callback_secret())
    assert event.data.outputs_url is not None
    async with httpx.AsyncClient(timeout=30) as anybody:
        assert (await anybody.get(event.data.outputs_url)).status_code == 200
        await erase(api, job)
        erased = await anybody.get(event.data.outputs_url)
        assert erased.json() == {"id": job.id, "outputs": None, "outputs_omitted": "erased"}
    assert (await api.get(job.id)).outputs is None
