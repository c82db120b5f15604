"""A receiver asks to wait with Retry-After. No delivery of many comes too early, whatever the form."""

import contextlib
import math
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from email.utils import formatdate

import pytest
from aiohttp import web

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.api.api_shapes import WebhookDelivery
from tests.support.database.backlog import open_backlog
from tests.support.database.seed import add_pending
from tests.support.receivers.raw_server import NO_CONTENT, RawServer
from tests.support.waiting import eventually

WEBHOOKS, PER_WEBHOOK = 20, 10  # per webhook fewer than the failures that open its circuit
WAIT = 3  # seconds; longer than any delay of the schedule in conftest.py
DAY = 86_400
LONG_WAIT = 59.0  # seconds; the other requested waits are longer, and a claim lasts 30
MARGIN = 20.0  # seconds for an attempt and its record, on a busy machine
HONORED = {"60": 60, "0000060": 60, "86400": DAY, "86401": DAY, "9" * 400: DAY}
IGNORED = ["0", "-600", "600.5", "soon", "600s", "", formatdate(0, usegmt=True), "2099-01-01T00:00:00Z"]


class BusyReceiver:
    """Answers each delivery first with Retry-After, in all forms in turn, and then accepts it."""

    def __init__(self) -> None:
        self.deadlines: dict[str, float] = {}  # by id: the Unix time before which the delivery may not come
        self.early: list[float] = []  # seconds by which deliveries came too early
        self.accepted: set[str] = set()

    async def receive(self, request: web.BaseRequest) -> web.Response:
        at, message = time.time(), request.headers["webhook-id"]
        if message in self.deadlines:
            if at < self.deadlines[message]:
                self.early.append(self.deadlines[message] - at)
            self.accepted.add(message)
            return web.Response(status=204)
        status, in_seconds = divmod(len(self.deadlines) % 4, 2)
        self.deadlines[message] = until = at + WAIT if in_seconds else math.ceil(at + WAIT)
        value = str(WAIT) if in_seconds else formatdate(until, usegmt=True)
        return web.Response(status=503 if status else 429, headers={"retry-after": value})

    async def has_accepted_all(self) -> bool:
        return len(self.accepted) == WEBHOOKS * PER_WEBHOOK


@contextlib.asynccontextmanager
async def open_receiver(receiver: BusyReceiver) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(receiver.receive))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


async def test_no_delivery_of_many_comes_before_its_retry_after(stack: Stack) -> None:
    receiver = BusyReceiver()
    async with (
        open_receiver(receiver) as url,
        open_backlog(stack.environment) as backlog,
        backlog.subscribers([url] * WEBHOOKS) as subscribers,
    ):
        for subscriber in subscribers:
            await add_pending(backlog.database, subscriber, PER_WEBHOOK)
        await eventually(receiver.has_accepted_all, "all deliveries were accepted", 60)
    assert receiver.early == []


def build_responses(status: int, values: Sequence[str], *, complete: bool = True) -> list[bytes]:
    """Return responses with these values of Retry-After, complete or with a truncated body.

    The server closes the connection, and says so: the next request would fail on it.
    """
    end = b"Connection: close\r\nContent-Length: 2\r\n\r\n" + (b"ok" if complete else b"o")
    return [f"HTTP/1.1 {status} Later\r\nRetry-After: {value}\r\n".encode() + end for value in values]


async def deliver_once(api: Api, responses: Sequence[bytes]) -> list[WebhookDelivery]:
    """Send one event to receivers that answer with these responses, then with 204.

    Return each delivery once it waits for long or has ended.
    """
    seen: set[str] = set()

    def respond(path: str, connection: socket.socket) -> None:
        connection.sendall(NO_CONTENT if path in seen else responses[int(path[1:])])
        if path not in seen:
            seen.add(path)
            connection.shutdown(socket.SHUT_RDWR)

    with RawServer(respond) as server:
        async with AsyncExitStack() as stack:
            urls = [f"{server.url}/{number}" for number in range(len(responses))]
            subscriptions = [
                await stack.enter_async_context(api.subscribed(url, events=["job.succeeded"])) for url in urls
            ]
            await api.run("echo", {"x": [[1.0]]})

            async def poll() -> list[WebhookDelivery] | None:
                pages = [await api.list_deliveries(f"/v1/webhooks/{each.id}") for each in subscriptions]
                found = [delivery for page in pages for delivery in page.items if delivery.attempts]
                short = [each for each in found if each.next_attempt_at and find_wait(each) < LONG_WAIT]
                return found if len(found) == len(subscriptions) and not short else None

            return await eventually(poll, "each delivery has a long wait or has ended")


def find_wait(delivery: WebhookDelivery) -> float:
    """Return the seconds from the last attempt of a delivery to the next."""
    assert delivery.next_attempt_at is not None
    return (delivery.next_attempt_at - delivery.attempts[-1].started_at).total_seconds()


@pytest.mark.parametrize("status", [429, 503])
async def test_valid_retry_after_is_honored_up_to_a_day_and_others_are_ignored(api: Api, status: int) -> None:
    began = time.time()
    honored = HONORED | {formatdate(began + wait, usegmt=True): min(wait, DAY) for wait in (600, 2 * DAY)}
    found = await deliver_once(api, build_responses(status, [*honored, *IGNORED]))
    for delivery, wait in zip(found, honored.values(), strict=False):
        assert (delivery.status, delivery.results) == ("pending", [(status, "http_status")])
        assert abs(find_wait(delivery) - wait) < MARGIN
    for delivery in found[len(honored) :]:
        assert (delivery.status, delivery.results) == ("succeeded", [(status, "http_status"), (204, None)])


async def test_retry_after_of_a_truncated_response_is_honored(api: Api) -> None:
    (delivery,) = await deliver_once(api, build_responses(503, ["60"], complete=False))
    assert (delivery.status, delivery.results) == ("pending", [(503, "connection_reset")])
    assert 60 <= find_wait(delivery) < 60 + MARGIN
