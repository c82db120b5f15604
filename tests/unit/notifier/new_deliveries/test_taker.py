"""Event messages that cannot be handled, and events with many receivers."""

import asyncio
from collections.abc import Mapping
from uuid import UUID

import pytest

from common import ids
from common.errors import DatabaseUnavailable, Retry, UnknownMessage
from common.rabbitmq.messages import (
    CancelJob,
    EventsRecorded,
    JobsQueued,
    KeysRevoked,
    Message,
    QueuedJob,
    RecordedEvent,
)
from services.notifier.claims.store import ClaimStore
from services.notifier.deliveries.worker import DeliveryWorker
from services.notifier.endpoints.due_endpoints import DueEndpoints
from services.notifier.new_deliveries import taker as module
from services.notifier.new_deliveries.store import RECEIVERS, NewClaims, NewDeliveryStore, Scheduled
from services.notifier.new_deliveries.taker import WIDE_EVENTS, WIDE_RECEIVERS, NewDeliveries
from tests.unit.clock import LATE
from tests.unit.fake_database import FakeDatabase
from tests.unit.notifier.samples import RecorderStub, SenderStub

TENANT = ids.new()


class UnavailableStore(NewDeliveryStore):
    async def claim(self, *_: object, **__: object) -> NewClaims:
        raise DatabaseUnavailable


def make_taker(store: NewDeliveryStore) -> NewDeliveries:
    worker = DeliveryWorker(
        ClaimStore(FakeDatabase()),
        SenderStub(),
        RecorderStub(),
        DueEndpoints(),
        (0.0,),
        timeout=1.0,
        concurrency=1,
        endpoint_concurrency=1,
    )
    return NewDeliveries(store, worker, 0.0)


@pytest.fixture
def taker() -> NewDeliveries:
    return make_taker(UnavailableStore(FakeDatabase()))


@pytest.mark.parametrize(
    "message",
    [
        EventsRecorded([RecordedEvent(ids.new(), "")]),
        EventsRecorded([RecordedEvent(ids.new(), ""), RecordedEvent(ids.new(), "")]),
    ],
)
async def test_it_is_retried_while_the_database_is_unavailable(
    taker: NewDeliveries, monkeypatch: pytest.MonkeyPatch, message: Message
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    with pytest.raises(Retry):
        await taker.handle(message, None)


@pytest.mark.parametrize(
    "message", [JobsQueued([QueuedJob(ids.new(), ids.new())]), CancelJob(ids.new()), KeysRevoked()]
)
async def test_another_kind_of_message_is_unknown(taker: NewDeliveries, message: Message) -> None:
    with pytest.raises(UnknownMessage):
        await taker.handle(message, None)


class WideStore(NewDeliveryStore):
    """Every event has a hundred receivers, and one event cannot be taken."""

    def __init__(self, bad: UUID) -> None:
        self.bad = bad
        self.claimed: list[UUID] = []
        self.bites: asyncio.Queue[list[UUID]] = asyncio.Queue()
        self.found: list[tuple[UUID, str]] = []

    async def claim(self, events: Mapping[UUID, str], *_: object, **__: object) -> NewClaims:
        if self.bad in events:
            raise ValueError
        self.claimed += events
        return NewClaims(RECEIVERS * len(events), RECEIVERS, [])

    async def schedule(
        self, events: Mapping[UUID, str], _delay: float, _lease: float, receivers: int = RECEIVERS
    ) -> Scheduled:
        if receivers == WIDE_RECEIVERS:
            self.bites.put_nowait(list(events))
            return Scheduled([], [])
        return Scheduled([], [(TENANT, event) for event in events])

    async def find(self, *_: object, **__: object) -> list[tuple[UUID, str]]:
        return self.found


async def test_an_event_that_fails_alone_fails_no_other() -> None:
    bad, *good = events = [ids.new() for _ in range(5)]
    store = WideStore(bad)
    taker = make_taker(store)
    results = await asyncio.gather(
        *(taker.handle(EventsRecorded([RecordedEvent(event, "")]), None) for event in events), return_exceptions=True
    )
    assert [type(result) for result in results] == [ValueError, *[type(None)] * 4]
    store.claimed.clear()
    store.found = [(event, "") for event in [*good, ids.new(), bad]]
    await taker._take_missed()
    assert store.claimed == [store.found[4][0]]  # the good ones wait for their further receivers


async def test_further_receivers_are_scheduled_in_bites() -> None:
    events = [ids.new() for _ in range(WIDE_EVENTS + 5)]
    store = WideStore(ids.new())
    taker = make_taker(store)
    await taker.handle(EventsRecorded([RecordedEvent(event, "") for event in events]), None)
    assert store.bites.empty()  # nobody waits for them
    loop = asyncio.create_task(taker.schedule_wide())
    bites = [await asyncio.wait_for(store.bites.get(), LATE) for _ in range(2)]
    loop.cancel()
    assert bites == [events[:WIDE_EVENTS], events[WIDE_EVENTS:]]
