"""kill -9 of the notifier at random points of delivery: everything arrives, and twice only what was in flight.

KILLS and SEED in the environment: how often, and the first of the random numbers.
"""

import asyncio
import os
import random
from collections import Counter, defaultdict
from uuid import UUID

from common import ids
from deploy.local.stack import Stack
from tests.acceptance.backlog import EACH, number_of, open_backlog
from tests.acceptance.receiver import Delivery, Inbox, Receiver
from tests.acceptance.waiting import eventually

KILLS = int(os.environ.get("KILLS", "8"))
SEED = int(os.environ.get("SEED", "19"))
ENDPOINTS = 4
EVENTS = ENDPOINTS * (EACH + 16)  # new ones for each life of the notifier: more than it may have under way
SOON = 60.0  # seconds


async def test_a_notifier_killed_anywhere_delivers_everything(breakable: Stack, receiver: Receiver) -> None:
    chance = random.Random(SEED)  # noqa: S311 -- a test's
    inboxes = [receiver.inbox() for _ in range(ENDPOINTS)]
    urls, events = [inbox.url for inbox in inboxes], []
    held: Counter[UUID] = Counter()  # at how many kills each delivery was in flight
    async with open_backlog(breakable.environment) as backlog, backlog.subscribers(urls) as subscribers:
        for _ in range(KILLS):
            events += await backlog.add_events([each.tenant_id for each in subscribers] * (EVENTS // ENDPOINTS))
            await run_until_killed(breakable, inboxes, chance)
            held.update(await backlog.settle())
        await asyncio.to_thread(breakable.notifiers[0].start)

        async def look() -> bool:
            return (await backlog.count([each.webhook_id for each in subscribers])).succeeded == len(events)

        await eventually(look, "everything is delivered", SOON)

    assert held.total() > KILLS, "the kills came when hardly anything was in flight"
    deliveries = [delivery for inbox in inboxes for delivery in inbox.deliveries]
    assert {number_of(delivery) for delivery in deliveries} == {event.number for event in events}
    check_repeats(deliveries, held)


async def run_until_killed(stack: Stack, inboxes: list[Inbox], chance: random.Random) -> None:
    """Starts the notifier and kills it somewhere between its first and its last delivery."""
    before, wanted = count(inboxes), chance.randint(1, EVENTS)
    (notifier,) = stack.notifiers
    await asyncio.to_thread(notifier.kill)
    await asyncio.to_thread(notifier.launch)

    async def look() -> bool:
        return count(inboxes) >= before + wanted

    await eventually(look, f"{wanted} deliveries", SOON)
    await asyncio.sleep(chance.uniform(0, 0.03))  # not only right after an arrival
    await asyncio.to_thread(notifier.kill)


def check_repeats(deliveries: list[Delivery], held: Counter[UUID]) -> None:
    """Each event came under one id, with the same bytes, and again at most once for each kill it was in flight at."""
    copies: dict[int, list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        copies[number_of(delivery)].append(delivery)
    for number, same in copies.items():
        (shown,) = {delivery.id for delivery in same}
        assert len({delivery.request.body for delivery in same}) == 1, number
        delivery_id = ids.parse(ids.Kind.DELIVERY, shown)
        assert delivery_id is not None
        assert len(same) <= 1 + held[delivery_id], f"{shown} came {len(same)} times"


def count(inboxes: list[Inbox]) -> int:
    return sum(len(inbox.deliveries) for inbox in inboxes)
