"""Many jobs in one call: all that are right are taken at once, and their end is told once."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import msgspec
import pytest

from deploy.local.postgres import DATABASE
from deploy.local.stack import Stack
from tests.acceptance.client import Api, Jobs, read
from tests.acceptance.receiver import Completed, Inbox, Receiver
from tests.acceptance.shapes import Batch, BatchAccepted
from tests.acceptance.waiting import eventually

COUNT = 10_000
RIGHT = COUNT // 5  # each of them runs, and all that run are traced
ECHO = {"model": "echo", "inputs": {"x": [[1.0]]}}
TYPO = ECHO | {"inptus": {}}
LINES = {"content-type": "application/x-ndjson"}
WITHIN = 90.0  # seconds for all of a batch, on a busy machine


def write_lines(items: Sequence[object]) -> bytes:
    return b"".join(msgspec.json.encode(item) + b"\n" for item in items)


async def send(api: Api, content: bytes | AsyncIterator[bytes], **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await api.http.post("/v1/batches", content=content, headers=LINES | named, timeout=60)


async def submit(api: Api, items: Sequence[object], **headers: str) -> BatchAccepted:
    answer = await send(api, write_lines(items), **headers)
    batch = read(answer, 202, BatchAccepted)
    assert answer.headers["location"] == f"/v1/batches/{batch.id}"
    return batch


async def look(api: Api, batch_id: str) -> Batch:
    return read(await api.http.get(f"/v1/batches/{batch_id}"), 200, Batch)


async def wait(api: Api, batch_id: str, within: float = 30.0) -> Batch:
    """The batch, once it is completed."""

    async def completed() -> Batch | None:
        batch = await look(api, batch_id)
        return batch if batch.status == "completed" else None

    return await eventually(completed, f"{batch_id} is completed", within)


async def hear(api: Api, inbox: Inbox, secret: str, batch_id: str) -> list[Batch]:
    """All that was told up to the end of a batch."""

    async def told() -> list[Batch] | None:
        heard = [delivery.read(secret, Completed).data for delivery in inbox.deliveries]
        return heard if batch_id in [each.id for each in heard] else None

    return await eventually(told, f"the end of {batch_id} is told")


async def test_ten_thousand_lines_with_wrong_ones_among_them(api: Api, stranger: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    items: list[Any] = [ECHO, TYPO, ECHO | {"model": "none"}, 1, ECHO | {"inputs": {"x": [["a"]]}}] * RIGHT
    asked = True
    answered = 0

    async def ask() -> None:
        nonlocal answered
        while asked:
            assert (await stranger.http.get("/v1/webhook-secret")).status_code == 200
            answered += 1

    async with api.subscribed(inbox.url, events=["batch.completed"]) as subscription:
        others = asyncio.create_task(ask())
        began = time.monotonic()
        batch = await submit(api, items)
        took, asked = time.monotonic() - began, False
        await others
        assert took < 30  # a few, on a machine of its own
        assert answered > 10  # others had their turn meanwhile
        assert (batch.total, batch.accepted, batch.status) == (COUNT, RIGHT, "processing")
        assert [error.index for error in batch.errors] == [index for index in range(COUNT) if index % 5]
        assert {error.type.rpartition(":")[2] for error in batch.errors if error.index % 5 == 2} == {"model_not_found"}
        told = [[each.pointer for each in error.errors] for error in batch.errors]
        assert told == [["/inptus"], [], [""], ["/inputs/x"]] * RIGHT
        ended = await wait(api, batch.id, WITHIN)
        assert {status: count for status, count in ended.counts.items() if count} == {"succeeded": RIGHT}
        assert (await stranger.http.get(f"/v1/batches/{batch.id}")).status_code == 404
        later = await submit(api, [ECHO])
        secret = subscription.secret or ""
        assert await hear(api, inbox, secret, later.id) == [ended, await wait(api, later.id)]


async def test_a_list_is_taken_too_and_its_jobs_are_listed(api: Api) -> None:
    failing = {"model": "faulty", "inputs": {"mode": ["invalid"]}}
    await api.submit("echo", {"x": [[2.0]]})
    answer = await api.http.post("/v1/batches", json=[ECHO, 1, failing, TYPO])
    batch = read(answer, 202, BatchAccepted)
    assert [(error.index, error.errors[0].pointer) for error in batch.errors] == [(1, ""), (3, "/inptus")]
    ended = await wait(api, batch.id)
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
        (write_lines([1] * (COUNT + 1)), 422, [""]),
        (b"x" * (17 * 1024 * 1024), 413, []),
    ],
)
async def test_a_batch_without_a_job_or_over_its_bounds_is_refused(
    api: Api, content: bytes, status: int, pointers: list[str]
) -> None:
    answer = await send(api, content)
    assert answer.status_code == status
    assert [error["pointer"] for error in answer.json().get("errors", [])] == pointers


@pytest.mark.parametrize(("content", "status"), [(b"[", 400), (b"{}", 422), (b"[]", 422), (b"[{}] x", 400)])
async def test_a_list_that_is_none_is_refused(api: Api, content: bytes, status: int) -> None:
    assert (await api.http.post("/v1/batches", content=content)).status_code == status


async def test_one_key_is_one_batch(api: Api, stranger: Api) -> None:
    key, items = str(uuid4()), [ECHO, TYPO, ECHO]
    answers = await asyncio.gather(*(send(api, write_lines(items), idempotency_key=key) for _ in range(10)))
    assert {answer.status_code for answer in answers} <= {202, 409}  # 409: the first is still in progress
    ended = await wait(api, next(answer for answer in answers if answer.status_code == 202).json()["id"])
    again = await send(api, write_lines(items), idempotency_key=key)
    batch = read(again, 202, BatchAccepted)
    assert (batch.id, batch.status, batch.counts["queued"]) == (ended.id, "processing", 2)  # as it was first answered
    assert again.headers["idempotency-replayed"] == "true"
    assert {read(answer, 202, BatchAccepted).id for answer in answers if answer.status_code == 202} == {batch.id}
    assert (batch.accepted, [error.index for error in batch.errors]) == (2, [1])
    other = await send(api, write_lines([ECHO]), idempotency_key=key)
    assert (other.status_code, other.json()["errors"][0]["pointer"]) == (422, "Idempotency-Key")
    assert read(await send(stranger, write_lines(items), idempotency_key=key), 202, BatchAccepted).id != batch.id
    listed = read(await api.http.get("/v1/jobs", params={"batch": batch.id}), 200, Jobs)
    assert len(listed.items) == 2


async def test_a_gateway_killed_half_way_leaves_no_half_batch_and_a_killed_dispatcher_none_open(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    inbox, gateway, dispatcher = receiver.inbox(), breakable.gateways[0], breakable.dispatchers[0]
    items, key = [ECHO | {"metadata": {"of": (mark := uuid4().hex)}}] * 1000, str(uuid4())

    async def arrive() -> AsyncIterator[bytes]:
        yield write_lines(items)
        await asyncio.to_thread(gateway.kill)
        yield b""

    async with api.subscribed(inbox.url, events=["batch.completed"]) as subscription:
        with pytest.raises(httpx.TransportError):
            await send(api, arrive(), idempotency_key=key)
        await asyncio.to_thread(gateway.start)
        async with stopped_at_its_inputs(breakable):
            tried = asyncio.create_task(send(api, write_lines(items), idempotency_key=key))
            await eventually(partial(is_blocked, breakable), "the batch is being written")
            await asyncio.to_thread(gateway.kill)
            with pytest.raises(httpx.TransportError):
                await tried
        await asyncio.to_thread(gateway.start)
        batch = await submit(api, items, idempotency_key=key)

        async def begun() -> bool:
            return (await look(api, batch.id)).counts["succeeded"] > 0

        await eventually(begun, "some have ended")
        await asyncio.to_thread(dispatcher.kill)
        await asyncio.to_thread(dispatcher.start)
        ended = await wait(api, batch.id, WITHIN)
        later = await submit(api, [ECHO])
        heard = await hear(api, inbox, subscription.secret or "", later.id)
    assert [each.id for each in heard] == [batch.id, later.id]
    assert heard[0] == ended
    assert sum(ended.counts.values()) == ended.accepted == 1000
    assert await count_marked(breakable, mark) == 1000


@asynccontextmanager
async def stopped_at_its_inputs(stack: Stack) -> AsyncIterator[None]:
    """Meanwhile no job can be written whole."""
    connection = await asyncpg.connect(stack.postgres.url)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE job_inputs IN SHARE MODE")
            yield
    finally:
        await connection.close()


async def is_blocked(stack: Stack) -> bool:
    statement = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '-- submit_jobs%'"
    return await asyncio.to_thread(stack.postgres.query, statement, DATABASE) != "0"


async def count_marked(stack: Stack, mark: str) -> int:
    """Jobs whose metadata has this."""
    statement = f"SELECT count(*) FROM job_inputs WHERE position('{mark}'::bytea IN metadata) > 0"  # noqa: S608 -- hex
    return int(await asyncio.to_thread(stack.postgres.query, statement, DATABASE))
