"""What follows from each answer of a receiver, and from none."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.acceptance.client import Api, Job
from tests.acceptance.listening import HOST, Reply
from tests.acceptance.receiver import Receiver
from tests.acceptance.shapes import WebhookDelivery

ECHO = {"x": [[1.0]]}
SOON = 0.5 * 0.8  # seconds between the first attempt and the second at least, as conftest.py has it
METADATA = "http://169.254.169.254/latest/meta-data/"

Cut = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def find_callback(api: Api, job: Job) -> WebhookDelivery:
    """The delivery of a job's callback, at its end."""
    (delivery,) = (await api.list_deliveries(f"/v1/jobs/{job.id}")).items
    return await api.wait_for_delivery(delivery.id)


@pytest.mark.parametrize("status", [200, 201, 204, 299])
async def test_2xx_is_success(api: Api, own_receiver: Receiver, status: int) -> None:
    inbox = own_receiver.inbox(status)
    job = await api.submit("echo", ECHO, webhook={"url": inbox.url})
    await inbox.wait()
    assert (await find_callback(api, await api.wait_for_webhooks(job.id))).results == [(status, None)]
    assert len(inbox.deliveries) == 1


async def test_everything_else_is_a_failure_and_no_redirect_is_followed(api: Api, own_receiver: Receiver) -> None:
    redirects, others = [301, 302, 303, 304, 307, 308], [400, 404, 418, 429, 500, 502, 503]
    target = own_receiver.inbox()
    answers: list[int | Reply] = [Reply(status, {"location": target.url}) for status in redirects]
    answers += [*others, Reply(302, {"location": METADATA})]
    inboxes = [own_receiver.inbox(answer) for answer in answers]
    jobs = [await api.submit("echo", ECHO, webhook={"url": inbox.url}) for inbox in inboxes]
    for job, inbox, status in zip(jobs, inboxes, (*redirects, *others, 302), strict=True):
        first, second = await inbox.wait(2)
        assert second.at - first.at >= SOON  # by the schedule: no second try of its own
        await api.wait_for_webhooks(job.id)
        assert (await find_callback(api, job)).results == [(status, "http_status"), (204, None)]
    assert target.deliveries == []


async def test_gone_gives_a_callback_up_at_once(api: Api, own_receiver: Receiver) -> None:
    inbox, other = own_receiver.inbox(410), own_receiver.inbox(500)
    job = await api.submit("echo", ECHO, webhook={"url": inbox.url})
    await inbox.wait()
    assert (await api.wait_for_webhooks(job.id)).webhook_status == "failed"
    delivery = await find_callback(api, job)
    assert (delivery.status, delivery.results) == ("exhausted", [(410, "http_status")])
    await api.submit("echo", ECHO, webhook={"url": other.url})
    await other.wait(2)  # by now a second attempt would have come
    assert len(inbox.deliveries) == 1


@asynccontextmanager
async def cutting(cut: Cut) -> AsyncIterator[tuple[str, list[float]]]:
    """The URL of a receiver that cuts its first connection and takes what comes over others, and when they came."""
    came: list[float] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(time.time())
        if len(came) == 1:
            await cut(reader, writer)
            writer.transport.abort()
        else:
            await read_request(reader)
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}/hook", came
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().splitlines()
    (length,) = [line.removeprefix("content-length: ") for line in head if line.startswith("content-length: ")]
    await reader.readexactly(int(length))


async def cut_before(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """At once."""


async def cut_during(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")


async def cut_after(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)


async def cut_half_way_through_the_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
    await writer.drain()


@pytest.mark.parametrize(
    ("cut", "status"),
    [(cut_before, None), (cut_during, None), (cut_after, None), (cut_half_way_through_the_answer, 200)],
)
async def test_a_connection_that_is_cut_is_one_attempt(api: Api, cut: Cut, status: int | None) -> None:
    async with cutting(cut) as (url, came):
        job = await api.submit("echo", ECHO, webhook={"url": url}, metadata={"filler": "x" * 16_000})
        await api.wait(job.id)
        assert (await api.wait_for_webhooks(job.id)).webhook_status == "succeeded"
    delivery = await find_callback(api, job)
    assert delivery.results == [(status, "connection_reset"), (204, None)]
    assert len(came) == 2
    assert came[1] - came[0] >= SOON
