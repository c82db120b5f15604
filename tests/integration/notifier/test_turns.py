"""Whose turn it is where there is not room for everything that is due."""

from collections import Counter
from uuid import UUID

from benchmarks.seed import Subscriber, add_pending, add_subscribers
from common.database import Database
from services.notifier.store import Store

EACH = 10  # for one endpoint at a time
LEASE = 30.0


async def subscribe(database: Database, count: int) -> list[Subscriber]:
    return await add_subscribers(database, [f"https://example.com/{number}" for number in range(count)], b"sealed")


async def claim(database: Database, limit: int) -> Counter[UUID]:
    """How many were claimed for each endpoint."""
    found = await Store(database).claim_deliveries(limit, LEASE, EACH)
    return Counter(each.endpoint_id for each in found.claims)


async def test_every_endpoint_has_its_first_before_any_has_its_second(database: Database) -> None:
    hog, *others = await subscribe(database, 21)
    await add_pending(database, hog, 1000)  # all due before any of the others'
    for other in others:
        await add_pending(database, other, 2)
    endpoints = {hog.webhook_id, *(other.webhook_id for other in others)}

    assert await claim(database, 21) == dict.fromkeys(endpoints, 1)
    assert await claim(database, 21) == dict.fromkeys(endpoints, 1)
    assert await claim(database, 21) == {hog.webhook_id: EACH - 2}


async def test_where_there_is_not_a_turn_for_all_those_that_waited_longest_are_first(database: Database) -> None:
    order = await subscribe(database, 9)
    for subscriber in order:
        await add_pending(database, subscriber, 3)
    claims = [await claim(database, 3) for _ in range(3)]
    assert claims == [{each.webhook_id: 1 for each in order[first : first + 3]} for first in (0, 3, 6)]


async def test_an_endpoint_holds_no_more_than_its_own_share(database: Database) -> None:
    (hog,) = await subscribe(database, 1)
    await add_pending(database, hog, 1000)
    assert await claim(database, 200) == {hog.webhook_id: EACH}
    assert await claim(database, 200) == {}
