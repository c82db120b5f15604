"""A client has what it gave and got erased: it is nowhere any more."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import httpx

from deploy.local.stack import Stack
from tests.acceptance.client import Api, Job
from tests.acceptance.listening import Reply
from tests.acceptance.receiver import Receiver
from tests.columns import find_columns

FAILING = 500
SUBSCRIBED = ["job.*", "delivery.exhausted"]


async def search(stack: Stack, secret: str) -> list[str]:
    connection = await asyncpg.connect(stack.postgres.url)
    try:
        return await find_columns(connection, secret)
    finally:
        await connection.close()


async def erase(api: Api, job: Job) -> None:
    answer = await api.http.delete(f"/v1/jobs/{job.id}")
    assert (answer.status_code, answer.content) == (204, b"")


async def test_the_payload_is_in_no_table_after_the_erasure(
    stack: Stack, api: Api, stranger: Api, own_receiver: Receiver
) -> None:
    """Of jobs that succeeded and failed, whose receivers sent it back, were told of that, or get it still."""
    secret, key = f"secret{uuid4().hex}", str(uuid4())
    echoing = own_receiver.inbox(*[Reply(FAILING, body=secret.encode())] * 5)
    listening, failing = own_receiver.inbox(), own_receiver.inbox(*[FAILING] * 5)
    personal = {"metadata": {"name": secret}, "parameters": {"name": secret}, "webhook": {"url": echoing.url}}
    spoken = {"model": "tokens", "inputs": {"text": [f"say {secret}"]}, **personal}
    async with (
        api.subscribed(listening.url, events=SUBSCRIBED),
        api.subscribed(failing.url, events=["job.succeeded"]),
    ):
        first = await api.post(spoken, {"Idempotency-Key": key})
        said = await api.wait(first.id)
        assert secret in str(said.outputs)
        refused = await api.run("faulty", {"mode": [secret]}, metadata={"name": secret})
        assert secret in (refused.error.message if refused.error else "")
        await listening.wait(2 * 2 + 1)  # the callback was given up, and that was told
        assert await search(stack, secret) != []
        for job in (said, refused):
            assert (await stranger.http.delete(f"/v1/jobs/{job.id}")).status_code == 404
            await erase(api, job)
            await erase(api, job)
        assert await search(stack, secret) == []

    erased = await api.get(said.id)
    assert (erased.status, erased.outputs, erased.metadata) == ("succeeded", None, {})
    assert (erased.finished_at, erased.webhook_status) == (said.finished_at, "none")
    assert (await api.list_deliveries(f"/v1/jobs/{said.id}")).items == []
    assert (await api.http.post(f"/v1/jobs/{refused.id}/retry")).status_code == 409
    assert (await api.http.post(f"/v1/jobs/{refused.id}/retry", json={"model": "echo"})).status_code == 409
    again = await api.post(spoken, {"Idempotency-Key": key})
    assert (again.id, again.metadata) == (said.id, {})
    assert await search(stack, secret) == []


async def test_nothing_is_sent_after_the_answer(api: Api, own_receiver: Receiver) -> None:
    """Though the receiver failed, and it was to be tried again."""
    inbox = own_receiver.inbox(*[FAILING] * 20)
    job = await api.run("echo", {"x": [[1.0]]}, webhook={"url": inbox.url})
    await inbox.wait()
    await erase(api, job)
    sent = len(inbox.deliveries)
    assert sent < 5
    other = await api.run("echo", {"x": [[2.0]]}, webhook={"url": inbox.url})
    assert (await api.wait_for_webhooks(other.id)).webhook_status == "failed"  # a whole schedule has passed
    secret = await api.callback_secret()
    assert {each.verify(secret).data.id for each in inbox.deliveries[sent:]} == {other.id}


async def test_a_job_that_has_not_ended_is_not_erased_and_an_outputs_url_ends_with_it(
    api: Api, own_receiver: Receiver
) -> None:
    inbox = own_receiver.inbox()
    large = {"x": [[0.5] * 100_000]}
    job = await api.submit("echo", large, webhook={"url": inbox.url})
    waiting = await api.submit("echo", {"x": [[1.0]]}, run_at=(datetime.now(UTC) + timedelta(days=1)).isoformat())
    refused = await api.http.delete(f"/v1/jobs/{waiting.id}")
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:charonia:problem:conflict")
    await api.http.post(f"/v1/jobs/{waiting.id}/cancel")
    await erase(api, waiting)
    event = (await inbox.wait())[0].verify(await api.callback_secret())
    assert event.data.outputs_url is not None
    async with httpx.AsyncClient() as anybody:
        assert (await anybody.get(event.data.outputs_url)).status_code == 200
        await erase(api, job)
        assert (await anybody.get(event.data.outputs_url)).status_code == 404
    assert (await api.get(job.id)).outputs is None
