"""Tenants and endpoints take turns while more is due than can be claimed."""

from collections import Counter
from uuid import UUID

from common.postgres.batcher import MAX_BATCH_BYTES
from common.postgres.database import Database
from services.notifier.claims.store import ClaimStore
from services.notifier.claims.tenant_slots import TenantRooms
from tests.support.database.seed import Subscriber, add_pending, add_subscribers

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


async def test_tenants_take_turns(database: Database) -> None:
    """A tenant with many endpoints gets no more than one with a single endpoint."""
    busy = await subscribe(database, 8)
    await database.fetch("UPDATE webhooks SET tenant_id = $1", busy[0].tenant_id)
    await database.fetch("UPDATE endpoints SET tenant_id = $1", busy[0].tenant_id)
    (quiet,) = await subscribe(database, 1)
    for subscriber in busy:
        await add_pending(database, subscriber._replace(tenant_id=busy[0].tenant_id), 3)
    await add_pending(database, quiet, 10)  # due after all others
    for _ in range(2):
        claims = await claim(database, 10)
        assert (claims.total(), claims[quiet.webhook_id]) == (10, 5)


async def test_a_tenant_gets_no_more_than_its_room(database: Database) -> None:
    first, second = await subscribe(database, 2)
    for subscriber in (first, second):
        await add_pending(database, subscriber, 5)
    rooms = TenantRooms(3, {first.tenant_id: 1})
    found = await ClaimStore(database).claim_due(10, LEASE, CONCURRENCY, [], rooms)
    assert Counter(each.tenant_id for each in found.claims) == {first.tenant_id: 1, second.tenant_id: 3}


async def test_a_tenant_without_room_takes_no_turn(database: Database) -> None:
    """Otherwise its endpoints, however many, would keep those of others from being looked at."""
    *full, other = await subscribe(database, 4)
    for subscriber in (*full, other):
        await add_pending(database, subscriber, 1)
    rooms = TenantRooms(1, {subscriber.tenant_id: 0 for subscriber in full})
    found = await ClaimStore(database).claim_due(1, LEASE, CONCURRENCY, [], rooms)
    assert [each.tenant_id for each in found.claims] == [other.tenant_id]
    assert found.has_more


async def test_a_claim_stops_after_a_number_of_bytes(database: Database) -> None:
    (subscriber,) = await subscribe(database, 1)
    await add_pending(database, subscriber, 4)
    await database.fetch("UPDATE events SET body = convert_to(repeat('x', $1), 'UTF8')", MAX_BATCH_BYTES // 2)
    for size in (2, 2, 0):
        assert (await claim(database, 200)).total() == size
