"""Kill the notifier with SIGKILL at random points of delivery.

Everything is delivered, and only what was in flight is delivered twice. The environment variables
KILLS and SEED set the number of kills and the random seed.
"""

import asyncio
import os
import random
import threading
from collections import Counter, defaultdict
from uuid import UUID

from common import ids
from deploy.local.stack import Stack
from tests.support.database.backlog import ENDPOINT_CONCURRENCY, open_backlog, read_event_number
from tests.support.receivers.threaded_server import ReceivedRequest, Reply
from tests.support.receivers.webhook_receiver import Delivery, Inbox, Receiver
from tests.support.waiting import eventually

KILLS = int(os.environ.get("KILLS", "2"))
SEED = int(os.environ.get("SEED", "19"))
ENDPOINTS = 4
# New events for each run of the notifier: more than it may have in flight.
EVENTS = ENDPOINTS * (ENDPOINT_CONCURRENCY + 16)
WITHIN = 60.0  # seconds


class Gate:
    """Lets so many deliveries be answered. The others get their answers once it is opened."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = 0
        self._open = threading.Event()

    def shut(self, after: int) -> None:
        self._left = after
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    @property
    def held(self) -> int:
        """How many deliveries have come that wait for their answers."""
        return max(0, -self._left)

    def wait(self) -> None:
        with self._lock:
            self._left -= 1
            is_held = self.held > 0
        if is_held:
            self._open.wait(WITHIN)


class GatedInbox(Inbox):
    def __init__(self, url: str, gate: Gate) -> None:
        super().__init__(url)
        self._gate = gate

    def receive(self, request: ReceivedRequest) -> int | Reply:
        answer = super().receive(request)
        self._gate.wait()
        return answer


async def test_notifier_killed_at_random_points_delivers_everything(breakable: Stack, receiver: Receiver) -> None:
    rng = random.Random(SEED)  # noqa: S311 -- a test's
    gate = Gate()
    inboxes = [receiver.add_inbox(lambda url: GatedInbox(url, gate)) for _ in range(ENDPOINTS)]
    urls, events = [inbox.url for inbox in inboxes], []
    in_flight: Counter[UUID] = Counter()  # number of kills at which each delivery was in flight
    async with open_backlog(breakable.environment) as backlog, backlog.subscribers(urls) as subscribers:
        await asyncio.to_thread(breakable.notifiers[0].kill)
        for _ in range(KILLS):
            events += await backlog.add_events([each.tenant_id for each in subscribers] * (EVENTS // ENDPOINTS))
            await run_until_killed(breakable, gate, rng)
            in_flight.update(await backlog.expire_claims())
        await asyncio.to_thread(breakable.notifiers[0].start)

        async def poll() -> bool:
            return (await backlog.count([each.webhook_id for each in subscribers])).succeeded == len(events)

        await eventually(poll, "everything is delivered", WITHIN)

    assert in_flight.total() >= KILLS, "not each kill had a delivery in flight"
    deliveries = [delivery for inbox in inboxes for delivery in inbox.deliveries]
    assert {read_event_number(delivery) for delivery in deliveries} == {event.number for event in events}
    check_repeats(deliveries, in_flight)


async def run_until_killed(stack: Stack, gate: Gate, rng: random.Random) -> None:
    """Start the notifier, and kill it between its first and its last delivery."""
    answered = rng.randrange(EVENTS)
    held = rng.randint(1, min(ENDPOINT_CONCURRENCY, EVENTS - answered))
    gate.shut(after=answered)
    (notifier,) = stack.notifiers
    await asyncio.to_thread(notifier.launch)

    async def poll() -> bool:
        return gate.held >= held

    await eventually(poll, f"{held} deliveries wait after {answered} were answered", WITHIN)
    await asyncio.to_thread(notifier.kill)
    gate.open()


def check_repeats(deliveries: list[Delivery], in_flight: Counter[UUID]) -> None:
    """Check that each event has one id and the same bytes every time.

    It may be repeated once for each kill at which it was in flight.
    """
    copies: dict[int, list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        copies[read_event_number(delivery)].append(delivery)
    for number, same in copies.items():
        (shown,) = {delivery.id for delivery in same}
        assert len({delivery.request.body for delivery in same}) == 1, number
        delivery_id = ids.parse(ids.Kind.DELIVERY, shown)
        assert delivery_id is not None
        assert len(same) <= 1 + in_flight[delivery_id], f"{shown} came {len(same)} times"
