"""`python -m benchmarks.doorbells <database> <broker> <key>`: makes events and rings the notifier for them."""

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aio_pika
from aio_pika.abc import AbstractExchange

from benchmarks.driver import Answering, serve
from benchmarks.seed import QUERIES, Seeded, Subscriber, add_events, add_pending, add_subscribers
from common import messages, topology
from common.database import Database
from common.messages import JobEvent
from common.sealing import Sealer
from common.signing import new_secret

IN_FLIGHT = 500  # doorbells without a confirm
LOOK = 0.05  # seconds between looks whether everything is recorded


class Doorbells:
    def __init__(self, database: Database, exchange: AbstractExchange, secret: bytes) -> None:
        self._database = database
        self._exchange = exchange
        self._secret = secret
        self._groups: dict[int, list[Subscriber]] = {}
        self._events: list[Seeded] = []
        self._hanging: Subscriber | None = None

    async def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        match question["kind"]:
            case "subscribe":
                urls = [f"{question['url']}/{number}" for number in range(question["endpoints"])]
                self._groups[len(urls)] = await add_subscribers(self._database, urls, self._secret)
            case "seed":
                await self._seed(question["endpoints"], question["events"])
            case "ring":
                return {"rung": await self._ring(self._events, question["rate"])}
            case "settled":
                return await self._settle(question["within"])
            case "hang":
                (self._hanging,) = await add_subscribers(self._database, [question["url"]], self._secret)
                await add_pending(self._database, self._hanging, question["pending"])
            case _:
                assert self._hanging is not None, "it was asked to hang before"
                await self._database.fetch(QUERIES["delete_subscription"], self._hanging.webhook_id)
        return {}

    async def _seed(self, endpoints: int, count: int) -> None:
        """Events for all endpoints in turn, and fresh statistics, so that every part of a round is planned alike."""
        turns = itertools.islice(itertools.cycle(self._groups[endpoints]), count)
        self._events = await add_events(self._database, [subscriber.tenant_id for subscriber in turns])
        async with self._database.pool.acquire() as connection:
            await connection.execute("VACUUM ANALYZE")

    async def _ring(self, events: Sequence[Seeded], rate: float | None) -> list[tuple[int, float]]:
        """At this rate a second, whatever becomes of those before, or as fast as possible; when each number was due."""
        begin, rung, ringing = time.perf_counter(), [], asyncio.Semaphore(IN_FLIGHT)
        tasks = []
        for index, event in enumerate(events):
            due = begin if rate is None else begin + index / rate
            if (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            await ringing.acquire()
            task = asyncio.create_task(self._ring_one(event))
            task.add_done_callback(lambda _: ringing.release())
            tasks.append(task)
            rung.append((event.number, due))
        await asyncio.gather(*tasks)
        return rung

    async def _ring_one(self, event: Seeded) -> None:
        body = messages.encode(JobEvent(event.id))
        mode = aio_pika.DeliveryMode.PERSISTENT
        message = aio_pika.Message(body, delivery_mode=mode, headers={"traceparent": event.traceparent})
        await self._exchange.publish(message, "job.succeeded")

    async def _settle(self, within: float) -> dict[str, Any]:
        """What the database says of the events, once all are delivered there too, or the time is up."""
        deadline = time.perf_counter() + within
        wanted = [event.id for event in self._events]
        while True:
            (found,) = await self._database.fetch(QUERIES["count_states"], wanted)
            if found["succeeded"] == len(wanted) or time.perf_counter() > deadline:
                return {"at": time.perf_counter(), **found}
            await asyncio.sleep(LOOK)


@asynccontextmanager
async def open_load() -> AsyncIterator[Answering]:
    secret = Sealer([sys.argv[3]]).seal(new_secret("hmac").encode())
    database = await Database.connect(sys.argv[1], application="benchmark")
    async with await aio_pika.connect(sys.argv[2]) as connection:
        exchange = await (await connection.channel()).get_exchange(topology.EVENTS)
        yield Doorbells(database, exchange, secret).answer
    await database.close()


if __name__ == "__main__":
    serve(open_load)
