"""Many who wait for events cost few statements, and each gets all of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import pytest

from common import ids
from common.event_types import EVENT_TYPES
from common.postgres.database import Database
from services.gateway.auth.store import Key
from services.gateway.events.event_types import read_types
from services.gateway.events.feed.feed import EventFeed
from services.gateway.events.feed.store import START, FeedPlace, FeedPosition, FeedRow, FeedStore
from services.gateway.events.history import Event
from services.gateway.events.store import EventStore
from services.gateway.events.waiter_presence import WaiterPresence
from services.gateway.events.waiters import Waiters
from services.gateway.http.limits.response_budget import ResponseBudget
from services.gateway.http.limits.response_limits import ResponseLease
from tests.integration.brokers import publishing
from tests.integration.gateway.events.feed.test_store import add
from tests.integration.jobs import add_tenant
from tests.integration.waiting import until

LISTENERS, TENANTS, EVENTS = 1000, 10, 5
HEARTBEAT = 60.0


class CountingStore(FeedStore):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.reads = self.looks = 0

    async def list_events(self, places: Sequence[FeedPlace], limit: int, size: int) -> list[list[FeedRow]]:
        self.reads += 1
        return await super().list_events(places, limit, size)

    async def find_news(self, waiting: Sequence[tuple[UUID, FeedPosition]]) -> set[UUID]:
        self.looks += 1
        return await super().find_news(waiting)


@pytest.fixture
async def feed(database: Database, amqp_url: str) -> AsyncIterator[EventFeed]:
    async with publishing(amqp_url) as publisher:
        waiters = Waiters(EventStore(database), WaiterPresence(publisher), lambda: True)
        feed = EventFeed(CountingStore(database), waiters, HEARTBEAT)
        watching = asyncio.create_task(feed.watch())
        yield feed
        watching.cancel()
        waiters.close()


def new_lease() -> ResponseLease:
    return ResponseLease(ResponseBudget(1024 * 1024))


async def collect(feed: EventFeed, key: Key, got: list[Event], types: tuple[str, ...] = EVENT_TYPES) -> None:
    async for event in feed.follow(key, new_lease(), types, START):
        got += [event] if event else []


async def test_a_thousand_listeners_share_the_statements(database: Database, feed: EventFeed) -> None:
    store = feed.store
    assert isinstance(store, CountingStore)
    tenants = [await add_tenant(database, f"tenant-{number}") for number in range(TENANTS)]
    heard: list[list[Event]] = [[] for _ in range(LISTENERS)]
    listening = [
        asyncio.create_task(collect(feed, Key(ids.new(), tenants[number % TENANTS]), heard[number]))
        for number in range(LISTENERS)
    ]
    await until(lambda: sum(feed._waiting.values()) == LISTENERS, "all listeners wait")
    store.reads = store.looks = 0
    began = asyncio.get_running_loop().time()
    added: dict[UUID, list[UUID]] = {tenant: [] for tenant in tenants}
    for _ in range(EVENTS):
        for tenant in tenants:
            added[tenant].append(await add(database, tenant))
            feed.note_change()
    await until(lambda: all(len(each) == EVENTS for each in heard), "each listener has all events of its tenant")
    took = asyncio.get_running_loop().time() - began
    for number, events in enumerate(heard):
        expected = [ids.encode(ids.Kind.EVENT, each) for each in added[tenants[number % TENANTS]]]
        assert [event.id.partition(".")[0] for event in events] == expected
    assert store.looks <= took / 0.05 + 2
    assert store.reads <= 4 * store.looks + 4 * TENANTS
    assert feed.waiters.count == LISTENERS
    for each in listening:
        each.cancel()
    await asyncio.gather(*listening, return_exceptions=True)
    assert (feed.waiters.count, feed._waiting, feed._reading) == (0, {}, {})


async def test_an_event_without_a_message_is_found_by_the_poll(
    database: Database, tenant: UUID, feed: EventFeed
) -> None:
    heard: list[Event] = []
    listening = asyncio.create_task(collect(feed, Key(ids.new(), tenant), heard))
    await until(lambda: len(feed._waiting) == 1, "the listener waits")
    await add(database, tenant)
    await until(lambda: len(heard) == 1, "the event came")
    listening.cancel()


async def test_a_keep_alive_causes_no_statement(feed: EventFeed, tenant: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener waits as before, so the poll looks for it. The stream still ends in time."""
    store = feed.store
    assert isinstance(store, CountingStore)
    monkeypatch.setattr("services.gateway.events.feed.feed.STREAM_SECONDS", 1.0)
    unwatched = EventFeed(store, feed.waiters, 0.001)
    async with asyncio.timeout(30):
        following = unwatched.follow(Key(ids.new(), tenant), new_lease(), EVENT_TYPES, START)
        assert await anext(following, None) is None  # the end, if the read alone took a second
        unwatched._changed.clear()
        assert {event async for event in following} <= {None}  # keep-alives, or none on a busy machine
    assert (store.reads, unwatched._changed.is_set()) == (1, False)


async def test_a_reader_skips_what_it_does_not_want(database: Database, tenant: UUID, feed: EventFeed) -> None:
    """Keys for some models see the events of those, and of no model."""
    for event_type in ("job.started", "job.failed", "webhook.disabled"):
        await add(database, tenant, event_type)
    await database.fetch("UPDATE events SET model = NULL WHERE type = 'webhook.disabled'")
    for models, expected in (
        (None, ["job.failed", "webhook.disabled"]),
        (("ech?",), ["job.failed", "webhook.disabled"]),
        (("ocr*",), ["webhook.disabled"]),
    ):
        key = Key(ids.new(), tenant, models=models)
        page = await feed.read(key, new_lease(), ("job.failed", "webhook.disabled"), START)
        assert [event.type for event in page.events] == expected
        assert not page.has_more
        rest = await feed.read(key, new_lease(), EVENT_TYPES, page.after)
        assert (rest.events, rest.after) == ([], page.after)


async def test_without_types_a_reader_gets_those_of_a_later_release_too(
    database: Database, tenant: UUID, feed: EventFeed
) -> None:
    types = ["job.paused", "webhook.disabled", "store.nearly.full"]
    for event_type in types:
        await add(database, tenant, event_type)
    key = Key(ids.new(), tenant)
    for wanted, expected in ((None, types), ("job.*", types[:1]), ("webhook.disabled,*.started", types[1:2])):
        page = await feed.read(key, new_lease(), read_types(wanted), START)
        assert [event.type for event in page.events] == expected


async def test_pages_follow_each_other(database: Database, tenant: UUID, feed: EventFeed) -> None:
    added = [await add(database, tenant, size=size) for size in (5, 5, 2_000_000, 600_000, 600_000)]
    key, after, pages = Key(ids.new(), tenant), START, []
    for _ in range(10):
        lease = ResponseLease(ResponseBudget(8 * 1024 * 1024))
        page = await feed.read(key, lease, EVENT_TYPES, after, 2)
        pages.append([len(event.body) for event in page.events])
        after = page.after
        if not page.has_more:
            break
    assert [size for page in pages for size in page] == [5, 5, 2_000_000, 600_000, 600_000]
    assert max(map(len, pages)) == 2
    assert after.id == added[-1]
