"""The load: orders at a steady rate, submitted until accepted, some canceled, some run again."""

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any

from tests.acceptance.receiver import Event
from tests.storm.client import PAUSE_SECONDS, Client
from tests.storm.ledger import TERMINAL_EVENTS, Call, Ledger, Try, What, key_of
from tests.storm.orders import Order, make_order
from tests.storm.receiver import Receiver

TRIES = 6
PATIENCE = 60.0  # seconds for what is under way when the load ends


class Load:
    def __init__(
        self, client: Client, receiver: Receiver, ledger: Ledger, *, seed: int, rate: float, in_flight: int
    ) -> None:
        """`rate` is in jobs a second; no more than `in_flight` jobs are under way."""
        self.client = client
        self.receiver = receiver
        self.ledger = ledger
        self.seed = seed
        self.rate = rate
        self.in_flight = in_flight
        self.waiting: set[str] = set()  # keys of accepted jobs whose end was not told yet
        self.told: set[str] = set()  # of those that were told, some of them before their submit was answered
        self.revived: set[str] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.submitting = 0
        self.ended = False  # nothing more is asked for: a call that nobody waits for would be missing in the ledger
        receiver.listeners.append(self.hear)

    async def run(self, until: asyncio.Event, limit: int) -> None:
        """Submits until `until` is set or there are `limit` orders, then waits for the calls under way."""
        begin, number = time.monotonic(), 0
        while not until.is_set() and number < limit:
            if len(self.waiting) + self.submitting >= self.in_flight:
                begin += 1 / self.rate  # nobody makes up for it afterwards
            else:
                self.spawn(self.submit(make_order(self.seed, number)))
                number += 1
            await asyncio.sleep(max(0.0, begin + number / self.rate - time.monotonic()))
        self.ended = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self.tasks:  # a submit may be followed by a cancel
                    await asyncio.wait(self.tasks)
        for task in self.tasks:
            task.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.settle)

    def settle(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.ledger.odd.append(f"the load broke: {error!r}")

    async def submit(self, order: Order) -> None:
        self.submitting += 1
        try:
            for index in range(TRIES):
                if await self.attempt(order, f"{order.number}.{index}"):
                    return
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self.submitting -= 1

    async def attempt(self, order: Order, key: str) -> bool:
        """Whether the job was accepted."""
        body = order.write(key, self.receiver.expect(key, order.answers))
        call, job = await self.client.call("submit", "/v1/jobs", body)
        attempt = self.ledger.tries[key] = Try(key, order, call, job.id if job else None)
        if job is None:
            self.doubt(call)
            return False
        if key not in self.told:
            self.waiting.add(key)
        if order.cancel_after is not None:
            self.spawn(self.cancel(attempt, order.cancel_after))
        return True

    async def cancel(self, attempt: Try, delay: float) -> None:
        await asyncio.sleep(delay)
        await self.change("cancel", attempt, attempt.cancels)

    async def revive(self, attempt: Try) -> None:
        await self.change("retry", attempt, attempt.retries)

    async def change(self, what: What, attempt: Try, calls: list[Call]) -> None:
        """Asks until there is an answer, at most three times."""
        for _ in range(3):
            call, job = await self.client.call(what, f"/v1/jobs/{attempt.job_id}/{what}")
            calls.append(call)
            if job is not None or call.status == HTTPStatus.CONFLICT:
                return
            self.doubt(call)
            await asyncio.sleep(PAUSE_SECONDS)

    def doubt(self, call: Call) -> None:
        """Notes an answer that no outage explains."""
        if call.status not in (None, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            self.ledger.odd.append(f"{call.what} answered {call.status}: {call.detail}")

    def hear(self, event: Event) -> None:
        """A webhook came: its job is no longer under way, or is run again."""
        if event.type not in TERMINAL_EVENTS:
            return
        key = key_of(event)
        self.told.add(key)
        self.waiting.discard(key)
        attempt = self.ledger.tries.get(key)
        if attempt is None or attempt.job_id is None or key in self.revived or self.ended:
            return
        if attempt.order.again and event.type != "job.succeeded":
            self.revived.add(key)
            self.spawn(self.revive(attempt))
