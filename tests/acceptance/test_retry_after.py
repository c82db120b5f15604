"""A receiver that asks to be left alone for a time: never earlier, of a thousand, and in every way there is to ask."""

import contextlib
import math
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from email.utils import formatdate

import pytest
from aiohttp import web

from benchmarks.seed import add_pending
from deploy.local.stack import Stack
from tests.acceptance.backlog import open_backlog
from tests.acceptance.client import Api
from tests.acceptance.shapes import WebhookDelivery
from tests.acceptance.waiting import eventually
from tests.raw_server import NO_CONTENT, RawServer

WEBHOOKS, EACH = 60, 17  # fewer to each than the failures that open its circuit
WAIT = 3  # seconds, more than any of the schedule, as conftest.py has it
DAY = 86_400
LONG = 59.0  # seconds at least of the other waits that are asked for; a claim, for one, lasts 30
ROOM = 20.0  # seconds for an attempt and its record, on a busy machine
OBEYED = {"60": 60, "0000060": 60, "86400": DAY, "86401": DAY, "9" * 400: DAY}
IGNORED = ["0", "-600", "600.5", "soon", "600s", "", formatdate(0, usegmt=True), "2099-01-01T00:00:00Z"]


class Busy:
    """Asks for a wait, in turn in each of the ways there are, and then takes the delivery."""

    def __init__(self) -> None:
        self.asked: dict[str, float] = {}  # by id: the unix time before which nothing may come
        self.early: list[float] = []  # by how many seconds
        self.taken: set[str] = set()

    async def take(self, request: web.BaseRequest) -> web.Response:
        at, message = time.time(), request.headers["webhook-id"]
        if message in self.asked:
            if at < self.asked[message]:
                self.early.append(self.asked[message] - at)
            self.taken.add(message)
            return web.Response(status=204)
        status, in_seconds = divmod(len(self.asked) % 4, 2)
        self.asked[message] = until = at + WAIT if in_seconds else math.ceil(at + WAIT)
        asked = str(WAIT) if in_seconds else formatdate(until, usegmt=True)
        return web.Response(status=503 if status else 429, headers={"retry-after": asked})

    async def has_taken_all(self) -> bool:
        return len(self.taken) == WEBHOOKS * EACH


@contextlib.asynccontextmanager
async def listen(busy: Busy) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(busy.take))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


async def test_of_a_thousand_none_comes_before_the_time_it_was_asked_to_wait(stack: Stack) -> None:
    busy = Busy()
    async with (
        listen(busy) as url,
        open_backlog(stack.environment) as backlog,
        backlog.subscribers([url] * WEBHOOKS) as subscribers,
    ):
        for subscriber in subscribers:
            await add_pending(backlog.database, subscriber, EACH)
        await eventually(busy.has_taken_all, "all were taken", 60)
    assert busy.early == []


def ask(status: int, values: Sequence[str], *, whole: bool = True) -> list[bytes]:
    """Answers that ask for these waits, each in full or cut off within its body."""
    end = b"Content-Length: 2\r\n\r\n" + (b"ok" if whole else b"o")
    return [f"HTTP/1.1 {status} Later\r\nRetry-After: {value}\r\n".encode() + end for value in values]


async def first_attempts(api: Api, answers: Sequence[bytes]) -> list[WebhookDelivery]:
    """What became of a delivery to a receiver that answers so once, after its first attempt or at its end."""
    came: set[str] = set()

    def answer(path: str, connection: socket.socket) -> None:
        connection.sendall(NO_CONTENT if path in came else answers[int(path[1:])])
        if path not in came:
            came.add(path)
            connection.shutdown(socket.SHUT_RDWR)

    with RawServer(answer) as server:
        async with AsyncExitStack() as leaving:
            urls = [f"{server.url}/{number}" for number in range(len(answers))]
            made = [await leaving.enter_async_context(api.subscribed(url, events=["job.succeeded"])) for url in urls]
            await api.run("echo", {"x": [[1.0]]})

            async def look() -> list[WebhookDelivery] | None:
                pages = [await api.list_deliveries(f"/v1/webhooks/{each.id}") for each in made]
                found = [delivery for page in pages for delivery in page.items if delivery.attempts]
                soon = [each for each in found if each.next_attempt_at and wait_of(each) < LONG]
                return found if len(found) == len(made) and not soon else None

            return await eventually(look, "each waits for long, or has ended")


def wait_of(delivery: WebhookDelivery) -> float:
    """Seconds from its last attempt to the next."""
    assert delivery.next_attempt_at is not None
    return (delivery.next_attempt_at - delivery.attempts[-1].started_at).total_seconds()


@pytest.mark.parametrize("status", [429, 503])
async def test_seconds_and_dates_are_obeyed_up_to_a_day_and_all_else_follows_the_schedule(
    api: Api, status: int
) -> None:
    began = time.time()
    obeyed = OBEYED | {formatdate(began + wait, usegmt=True): min(wait, DAY) for wait in (600, 2 * DAY)}
    found = await first_attempts(api, ask(status, [*obeyed, *IGNORED]))
    for delivery, wait in zip(found, obeyed.values(), strict=False):
        assert (delivery.status, delivery.results) == ("pending", [(status, "http_status")])
        assert abs(wait_of(delivery) - wait) < ROOM
    for delivery in found[len(obeyed) :]:
        assert (delivery.status, delivery.results) == ("succeeded", [(status, "http_status"), (204, None)])


async def test_an_answer_that_is_cut_off_has_asked_all_the_same(api: Api) -> None:
    (delivery,) = await first_attempts(api, ask(503, ["60"], whole=False))
    assert (delivery.status, delivery.results) == ("pending", [(503, "connection_reset")])
    assert 60 <= wait_of(delivery) < 60 + ROOM
