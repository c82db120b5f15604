"""Each response of a receiver, or none, has its consequence."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.support.api.api_client import Api, Job
from tests.support.api.api_shapes import WebhookDelivery
from tests.support.receivers.threaded_server import HOST, Reply
from tests.support.receivers.webhook_receiver import Receiver

ECHO = {"x": [[1.0]]}
SHORTEST_DELAY = 0.5 * 0.8  # seconds: the shortest delay between the first two attempts; see conftest.py
METADATA_URL = "http://169.254.169.254/latest/meta-data/"

Cut = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def find_callback(api: Api, job: Job) -> WebhookDelivery:
    """Return the delivery of a job's callback once it has ended."""
    (delivery,) = (await api.list_deliveries(f"/v1/jobs/{job.id}")).items
    return await api.wait_for_delivery(delivery.id)


@pytest.mark.parametrize("status", [200, 201, 204, 299])
async def test_2xx_is_success(api: Api, own_receiver: Receiver, status: int) -> None:
    inbox = own_receiver.inbox(status)
    job = await api.submit("echo", ECHO, webhook={"url": inbox.url})
    await inbox.wait()
    assert (await find_callback(api, await api.wait_for_webhooks(job.id))).results == [(status, None)]
    assert len(inbox.deliveries) == 1


async def test_other_status_is_a_failure_and_redirects_are_not_followed(api: Api, own_receiver: Receiver) -> None:
    redirects, others = [301, 302, 303, 304, 307, 308], [400, 404, 418, 429, 500, 502, 503]
    target = own_receiver.inbox()
    responses: list[int | Reply] = [Reply(status, {"location": target.url}) for status in redirects]
    responses += [*others, Reply(302, {"location": METADATA_URL})]
    inboxes = [own_receiver.inbox(response) for response in responses]
    jobs = [await api.submit("echo", ECHO, webhook={"url": inbox.url}) for inbox in inboxes]
    for job, inbox, status in zip(jobs, inboxes, (*redirects, *others, 302), strict=True):
        first, second = await inbox.wait(2)
        assert second.at - first.at >= SHORTEST_DELAY  # by the schedule: the HTTP client does not retry by itself
        await api.wait_for_webhooks(job.id)
        assert (await find_callback(api, job)).results == [(status, "http_status"), (204, None)]
    assert target.deliveries == []


async def test_410_exhausts_a_callback_at_once(api: Api, own_receiver: Receiver) -> None:
    inbox, other = own_receiver.inbox(410), own_receiver.inbox(500)
    job = await api.submit("echo", ECHO, webhook={"url": inbox.url})
    await inbox.wait()
    assert (await api.wait_for_webhooks(job.id)).webhook_status == "failed"
    delivery = await find_callback(api, job)
    assert (delivery.status, delivery.results) == ("exhausted", [(410, "http_status")])
    await api.submit("echo", ECHO, webhook={"url": other.url})
    await other.wait(2)  # a second attempt would have come by now
    assert len(inbox.deliveries) == 1


@asynccontextmanager
async def open_cutting_receiver(cut: Cut) -> AsyncIterator[tuple[str, list[float]]]:
    """Open a receiver that cuts its first connection and answers later ones.

    Yield its URL, and the times of its connections.
    """
    arrivals: list[float] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrivals.append(time.time())
        if len(arrivals) == 1:
            await cut(reader, writer)
            writer.transport.abort()
        else:
            await read_request(reader)
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}/hook", arrivals
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().splitlines()
    (length,) = [line.removeprefix("content-length: ") for line in head if line.startswith("content-length: ")]
    await reader.readexactly(int(length))


async def cut_before_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Cut before reading anything."""


async def cut_during_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")


async def cut_after_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)


async def cut_during_response(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
    await writer.drain()


@pytest.mark.parametrize(
    ("cut", "status"),
    [(cut_before_request, None), (cut_during_request, None), (cut_after_request, None), (cut_during_response, 200)],
)
async def test_cut_connection_is_one_attempt(api: Api, cut: Cut, status: int | None) -> None:
    async with open_cutting_receiver(cut) as (url, arrivals):
        job = await api.submit("echo", ECHO, webhook={"url": url}, metadata={"filler": "x" * 16_000})
        await api.wait(job.id)
        assert (await api.wait_for_webhooks(job.id)).webhook_status == "succeeded"
    delivery = await find_callback(api, job)
    assert delivery.results == [(status, "connection_reset"), (204, None)]
    assert len(arrivals) == 2
    assert arrivals[1] - arrivals[0] >= SHORTEST_DELAY
