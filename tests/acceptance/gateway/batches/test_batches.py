"""A batch submits many jobs in one call. All valid items are accepted at once, and its end is reported once."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest

from deploy.local.servers.postgres import DATABASE
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Jobs, read
from tests.support.api.api_shapes import Batch, BatchAccepted
from tests.support.api.batches import get_batch, send_batch, submit_batch, wait_for_batch, write_lines
from tests.support.receivers.webhook_receiver import BatchCompleted, Inbox, Receiver
from tests.support.waiting import POLL_SECONDS, eventually

ITEMS = 10_000
ECHO = {"model": "echo", "inputs": {"x": [[1.0]]}}
TYPO = ECHO | {"inptus": {}}
INVALID: list[Any] = [TYPO, ECHO | {"model": "none"}, 1, ECHO | {"inputs": {"x": [["a"]]}}] * 31
PERIOD = 1 + len(INVALID)
VALID = ITEMS // PERIOD  # all of them run, and all runs are traced
MARKED = 150  # jobs of a batch that outlives its gateway and its dispatcher
WITHIN = 90.0  # seconds for a whole batch, on a busy machine


async def wait_for_webhook(api: Api, inbox: Inbox, secret: str, batch_id: str) -> list[Batch]:
    """Return the batches of all webhooks once this batch's has arrived."""

    async def poll() -> list[Batch] | None:
        batches = [delivery.read(secret, BatchCompleted).data for delivery in inbox.deliveries]
        return batches if batch_id in [each.id for each in batches] else None

    return await eventually(poll, f"the webhook of {batch_id} arrives")


async def test_ten_thousand_lines_with_invalid_ones_among_them(api: Api, other_tenant: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    items = [ECHO, *INVALID] * VALID
    submitting = True
    taken = list[float]()

    async def send_requests() -> None:
        while submitting:
            began = time.monotonic()
            assert (await other_tenant.http.get("/v1/webhook-secret")).status_code == 200
            taken.append(time.monotonic() - began)
            await asyncio.sleep(POLL_SECONDS)

    async with api.subscribed(inbox.url, events=["batch.completed"]) as subscription:
        others = asyncio.create_task(send_requests())
        began = time.monotonic()
        batch = await submit_batch(api, items)
        seconds, submitting = time.monotonic() - began, False
        await others
        assert seconds < 30  # an idle machine needs a few seconds
        assert max(taken) < seconds / 2  # other requests were served meanwhile
        assert (batch.total, batch.accepted, batch.status) == (ITEMS, VALID, "processing")
        assert [error.index for error in batch.errors] == [index for index in range(ITEMS) if index % PERIOD]
        assert {error.type.rpartition(":")[2] for error in batch.errors[1::4]} == {"model_not_found"}
        pointers = [[each.pointer for each in error.errors] for error in batch.errors]
        assert pointers == [["/inptus"], [], [""], ["/inputs/x"]] * 31 * VALID
        ended = await wait_for_batch(api, batch.id, WITHIN)
        assert {status: count for status, count in ended.counts.items() if count} == {"succeeded": VALID}
        assert (await other_tenant.http.get(f"/v1/batches/{batch.id}")).status_code == 404
        secret = subscription.secret or ""
        await wait_for_webhook(api, inbox, secret, batch.id)  # webhooks of two batches may overtake each other
        later = await submit_batch(api, [ECHO])
        assert await wait_for_webhook(api, inbox, secret, later.id) == [ended, await wait_for_batch(api, later.id)]


async def test_json_list_is_accepted_and_its_jobs_are_listed(api: Api) -> None:
    failing = {"model": "faulty", "inputs": {"mode": ["invalid"]}}
    await api.submit("echo", {"x": [[2.0]]})
    response = await api.http.post("/v1/batches", json=[ECHO, 1, failing, TYPO])
    batch = read(response, 202, BatchAccepted)
    assert [(error.index, error.errors[0].pointer) for error in batch.errors] == [(1, ""), (3, "/inptus")]
    ended = await wait_for_batch(api, batch.id)
    assert (ended.counts["succeeded"], ended.counts["failed"]) == (1, 1)
    listed = read(await api.http.get(batch.urls.jobs), 200, Jobs)
    assert len(listed.items) == 2
    assert {job.model: job.status for job in listed.items} == {"echo": "succeeded", "faulty": "failed"}
    failed = read(await api.http.get("/v1/jobs", params={"batch": batch.id, "status": "failed"}), 200, Jobs)
    assert [job.model for job in failed.items] == ["faulty"]


@pytest.mark.parametrize(
    ("content", "status", "pointers"),
    [
        (b"", 422, [""]),
        (write_lines([TYPO, 1]), 422, ["/0/inptus", "/1"]),
        (write_lines([1] * (ITEMS + 1)), 422, [""]),
        (b"x" * (17 * 1024 * 1024), 413, []),
    ],
)
async def test_batch_without_valid_jobs_or_over_its_limits_is_refused(
    api: Api, content: bytes, status: int, pointers: list[str]
) -> None:
    response = await send_batch(api, content)
    assert response.status_code == status
    assert [error["pointer"] for error in response.json().get("errors", [])] == pointers


@pytest.mark.parametrize(("content", "status"), [(b"[", 400), (b"{}", 422), (b"[]", 422), (b"[{}] x", 400)])
async def test_body_that_is_not_a_list_is_refused(api: Api, content: bytes, status: int) -> None:
    assert (await api.http.post("/v1/batches", content=content)).status_code == status


async def test_one_idempotency_key_is_one_batch(api: Api, other_tenant: Api) -> None:
    key, items = str(uuid4()), [ECHO, TYPO, ECHO]
    responses = await asyncio.gather(*(send_batch(api, write_lines(items), idempotency_key=key) for _ in range(10)))
    accepted = [response for response in responses if response.status_code == 202]
    refused = [response for response in responses if response not in accepted]
    assert {(each.status_code, each.json()["type"].rpartition(":")[2]) for each in refused} <= {
        (409, "request_in_progress")
    }
    assert {each.headers["retry-after"] for each in refused} <= {"1"}
    ended = await wait_for_batch(api, accepted[0].json()["id"])
    again = await send_batch(api, write_lines(items), idempotency_key=key)
    batch = read(again, 202, BatchAccepted)
    assert (batch.id, batch.status, batch.counts["queued"]) == (ended.id, "processing", 2)  # as in the first response
    assert again.headers["idempotency-replayed"] == "true"
    assert {read(response, 202, BatchAccepted).id for response in accepted} == {batch.id}
    assert (batch.accepted, [error.index for error in batch.errors]) == (2, [1])
    other = await send_batch(api, write_lines([ECHO]), idempotency_key=key)
    assert (other.status_code, other.json()["errors"][0]["pointer"]) == (422, "Idempotency-Key")
    assert (
        read(await send_batch(other_tenant, write_lines(items), idempotency_key=key), 202, BatchAccepted).id != batch.id
    )
    listed = read(await api.http.get("/v1/jobs", params={"batch": batch.id}), 200, Jobs)
    assert len(listed.items) == 2


async def test_killed_gateway_leaves_no_partial_batch_and_killed_dispatcher_no_open_one(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    inbox, gateway, dispatcher = receiver.inbox(), breakable.gateways[0], breakable.dispatchers[0]
    items, key = [ECHO | {"metadata": {"of": (marker := uuid4().hex)}}] * MARKED, str(uuid4())

    async def send_then_kill() -> AsyncIterator[bytes]:
        yield write_lines(items)
        await asyncio.to_thread(gateway.kill)
        yield b""

    async with api.subscribed(inbox.url, events=["batch.completed"]) as subscription:
        with pytest.raises(httpx.TransportError):
            await send_batch(api, send_then_kill(), idempotency_key=key)
        await asyncio.to_thread(gateway.start)
        async with block_jobs(breakable):
            submitting = asyncio.create_task(send_batch(api, write_lines(items), idempotency_key=key))
            await eventually(partial(is_submit_blocked, breakable), "the batch is being written")
            await asyncio.to_thread(gateway.kill)
            with pytest.raises(httpx.TransportError):
                await submitting
        await asyncio.to_thread(gateway.start)
        batch = await submit_batch(api, items, idempotency_key=key)

        async def have_some_ended() -> bool:
            return (await get_batch(api, batch.id)).counts["succeeded"] > 0

        await eventually(have_some_ended, "some jobs have ended")
        await asyncio.to_thread(dispatcher.kill)
        await asyncio.to_thread(dispatcher.start)
        ended = await wait_for_batch(api, batch.id, WITHIN)
        await wait_for_webhook(api, inbox, subscription.secret or "", batch.id)
        later = await submit_batch(api, [ECHO])
        completed = await wait_for_webhook(api, inbox, subscription.secret or "", later.id)
    assert [each.id for each in completed] == [batch.id, later.id]
    assert completed[0] == ended
    assert sum(ended.counts.values()) == ended.accepted == MARKED
    assert await count_marked(breakable, marker) == MARKED


@asynccontextmanager
async def block_jobs(stack: Stack) -> AsyncIterator[None]:
    """Keep jobs from being written."""
    connection = await asyncpg.connect(stack.postgres.url)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE live_jobs IN SHARE MODE")
            yield
    finally:
        await connection.close()


async def is_submit_blocked(stack: Stack) -> bool:
    statement = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '-- submit_jobs%'"
    return await asyncio.to_thread(stack.postgres.query, statement, DATABASE) != "0"


async def count_marked(stack: Stack, marker: str) -> int:
    """Return the number of jobs whose metadata contains this marker."""
    statement = f"SELECT count(*) FROM jobs WHERE position('{marker}'::bytea IN metadata) > 0"  # noqa: S608 -- hex
    return int(await asyncio.to_thread(stack.postgres.query, statement, DATABASE))
