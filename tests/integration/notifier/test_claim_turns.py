"""Endpoints take turns while more is due than can be claimed."""

from collections import Counter
from uuid import UUID

from common.postgres.database import Database
from services.notifier.store.claims import ClaimStore
from tests.support.seed import Subscriber, add_pending, add_subscribers

CONCURRENCY = 10  # attempts in flight for one endpoint
LEASE = 30.0


async def subscribe(database: Database, count: int) -> list[Subscriber]:
    return await add_subscribers(database, [f"https://example.com/{number}" for number in range(count)], b"encrypted")


async def claim(database: Database, limit: int) -> Counter[UUID]:
    """Claim, and return the number of claims for each endpoint."""
    found = await ClaimStore(database).claim_due(limit, LEASE, CONCURRENCY)
    return Counter(each.endpoint_id for each in found.claims)


async def test_every_endpoint_gets_its_first_claim_before_any_gets_its_second(database: Database) -> None:
    busy, *others = await subscribe(database, 21)
    await add_pending(database, busy, 1000)  # all due before the others'
    for other in others:
        await add_pending(database, other, 2)
    endpoints = {busy.webhook_id, *(other.webhook_id for other in others)}

    assert await claim(database, 21) == dict.fromkeys(endpoints, 1)
    assert await claim(database, 21) == dict.fromkeys(endpoints, 1)
    assert await claim(database, 21) == {busy.webhook_id: CONCURRENCY - 2}


async def test_the_longest_waiting_endpoints_come_first(database: Database) -> None:
    order = await subscribe(database, 9)
    for subscriber in order:
        await add_pending(database, subscriber, 3)
    claims = [await claim(database, 3) for _ in range(3)]
    assert claims == [{each.webhook_id: 1 for each in order[first : first + 3]} for first in (0, 3, 6)]


async def test_an_endpoint_gets_no_more_than_its_limit(database: Database) -> None:
    (busy,) = await subscribe(database, 1)
    await add_pending(database, busy, 1000)
    assert await claim(database, 200) == {busy.webhook_id: CONCURRENCY}
    assert await claim(database, 200) == {}
