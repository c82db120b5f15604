"""The order of the feed, and where it ends."""

from uuid import UUID

import asyncpg

from common import ids
from common.event_types import EVENT_TYPES
from common.postgres.database import Database
from services.gateway.events.feed.store import START, FeedPlace, FeedPosition, FeedRow, FeedStore
from tests.integration.jobs import add_tenant

ADD = """
INSERT INTO events (id, tenant_id, model, type, body, traceparent)
SELECT $1, $2, 'echo', $3, convert_to(repeat('x', $4::integer), 'UTF8'), ''
"""
PAGE = 1000  # bytes


async def add(connection: Database, tenant: UUID, event_type: str = "job.succeeded", size: int = 2) -> UUID:
    event_id = ids.new()
    await connection.fetch(ADD, event_id, tenant, event_type, size)
    return event_id


async def read(
    database: Database, tenant: UUID, after: FeedPosition = START, types: tuple[str, ...] = EVENT_TYPES, limit: int = 10
) -> list[FeedRow]:
    (rows,) = await FeedStore(database).list_events([FeedPlace(tenant, after, types)], limit, PAGE)
    return rows


def list_ids(rows: list[FeedRow]) -> list[UUID]:
    return [row.position.id for row in rows]


async def test_an_older_transaction_that_commits_later_is_not_skipped(database: Database, database_url: str) -> None:
    """The feed waits for it. An order of ids or of times alone would have passed it by."""
    tenant = await add_tenant(database, "late")
    first = await add(database, tenant)
    slow = await asyncpg.connect(database_url)
    late = ids.new()
    async with slow.transaction():
        await slow.execute(ADD, late, tenant, "job.succeeded", 2)
        newer = await add(database, tenant)
        assert list_ids(rows := await read(database, tenant)) == [first]
        assert await FeedStore(database).find_news([(tenant, rows[-1].position)]) == set()
        assert (await FeedStore(database).find_end(tenant)).id == first
    await slow.close()
    assert await FeedStore(database).find_news([(tenant, rows[-1].position)]) == {tenant}
    assert list_ids(await read(database, tenant, rows[-1].position)) == [late, newer]


async def test_each_position_gives_the_events_after_it_of_its_tenant_only(database: Database, tenant: UUID) -> None:
    other = await add_tenant(database, "other")
    own = [await add(database, tenant) for _ in range(5)]
    strange = [await add(database, other) for _ in range(2)]
    rows = await read(database, tenant)
    assert list_ids(rows) == own
    places = [FeedPlace(other, START, EVENT_TYPES)]
    places += [FeedPlace(tenant, row.position, EVENT_TYPES) for row in rows]
    found = await FeedStore(database).list_events(places, 2, PAGE)
    assert [list_ids(each) for each in found] == [strange, own[1:3], own[2:4], own[3:5], own[4:], []]


async def test_bodies_are_of_the_wanted_types_and_fill_one_page(database: Database, tenant: UUID) -> None:
    for event_type, size in (("job.started", 5), ("job.failed", PAGE - 1), ("job.failed", 1), ("job.failed", PAGE + 1)):
        await add(database, tenant, event_type, size)
    rows = await read(database, tenant, types=("job.failed",))
    assert [(row.size, row.body is None) for row in rows] == [(0, True), (PAGE - 1, False), (1, False)]
    (large,) = await read(database, tenant, rows[-1].position, types=("job.failed", "job.started"))
    assert (large.size, large.body) == (PAGE + 1, None)
    body = await FeedStore(database).read_body(large.position.id, tenant)
    assert body == b"x" * (PAGE + 1)
    assert await FeedStore(database).read_body(large.position.id, ids.new()) is None


async def test_a_reader_goes_on_after_an_event_that_is_gone(database: Database, tenant: UUID) -> None:
    store = FeedStore(database)
    for _ in range(3):
        await add(database, tenant)
    first, second, third = await read(database, tenant)
    assert await store.find_position(second.position.id, tenant, None) == second.position
    assert await store.find_position(second.position.id, ids.new(), None) is None
    await database.fetch("DELETE FROM events WHERE id = $1", second.position.id)
    assert await store.find_position(second.position.id, tenant, None) is None
    assert await store.find_position(second.position.id, tenant, 2**62) is None  # would hide all that comes
    after = await store.find_position(second.position.id, tenant, second.position.xid)
    assert after == second.position
    assert list_ids(await read(database, tenant, after)) == [third.position.id]
    assert await store.find_position(first.position.id, tenant, 5) == first.position  # the row knows better


async def test_events_of_a_dump_with_larger_transactions_come_first(database: Database, tenant: UUID) -> None:
    store = FeedStore(database)
    restored = sorted([await add(database, tenant) for _ in range(3)])
    await database.fetch("UPDATE events SET xid = '4611686018427387904'")
    assert await read(database, tenant) == []
    assert [await store.adopt_restored(2), await store.adopt_restored(2), await store.adopt_restored(2)] == [2, 1, 0]
    new = await add(database, tenant)
    assert list_ids(await read(database, tenant)) == [*restored, new]
