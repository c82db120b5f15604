"""The notifier's loop with a receiver that asks it to wait: never earlier than asked, in a thousand."""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator
from email.utils import formatdate
from uuid import UUID

from aiohttp import web

from common.database import Database
from services.notifier.outbound import Outbound
from services.notifier.sender import Sender
from tests.integration.deliveries import add_due, subscribe
from tests.integration.notifier.receiver import LOCAL, SEALER, SECRET
from tests.integration.notifier.steps import Steps
from tests.integration.waiting import until

WEBHOOKS, EACH = 60, 17  # fewer to each than the failures that open its circuit
PLAN = (0.0, 0.1, 0.1)  # sooner than what is asked for
WAIT = 2  # seconds
TIMEOUT = 15.0


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


@contextlib.asynccontextmanager
async def listen(busy: Busy) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(busy.take))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


@contextlib.asynccontextmanager
async def running(steps: Steps) -> AsyncIterator[None]:
    """The loop that empties the schedule."""
    sender = Sender.open(SEALER, LOCAL, timeout=TIMEOUT, concurrency=200)
    outbound = Outbound(steps.store, sender, PLAN, timeout=TIMEOUT, concurrency=200, each=steps.each)
    steps.recorder.wake = outbound.wake
    loop = asyncio.create_task(outbound.run(steps.recorder))
    yield
    loop.cancel()
    await outbound.stop(0)
    await sender.close()


async def test_of_a_thousand_none_comes_before_the_time_it_was_asked_to_wait(database: Database, tenant: UUID) -> None:
    busy, secret = Busy(), SEALER.seal(SECRET.encode())
    async with listen(busy) as url:
        for _ in range(WEBHOOKS):
            await add_due(database, tenant, (await subscribe(database, tenant, url=url, secret=secret)).id, EACH)
        async with running(Steps(database)):
            await until(lambda: len(busy.taken) == WEBHOOKS * EACH, "all were taken", 60)
    assert busy.early == []
