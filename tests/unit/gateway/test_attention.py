"""When dispatchers are asked to ring, and what is missed until they do."""

import asyncio
from typing import cast

import pytest

from common import topology
from common.jobs import Status
from common.messages import Listening
from services.gateway import watch as module
from services.gateway.attention import SURE_SECONDS, Attention
from services.gateway.watch import Watch
from services.gateway.watch_store import Stamp, WatchStore
from tests.unit.clock import Clock
from tests.unit.gateway.watching import JOB, KEY, LONG, OTHER, STRANGER, FakePublisher, FakeStore, settle


async def test_who_begins_to_wait_has_the_dispatchers_ring(
    watch: Watch, publisher: FakePublisher, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for all who come soon after."""
    monkeypatch.setattr(module, "AGAIN_SECONDS", ())
    for now, count in ((0.0, 1), (SURE_SECONDS - 1, 1), (SURE_SECONDS, 2)):
        clock.now = now
        with watch.follow(JOB, KEY), watch.follow(OTHER, STRANGER):
            await settle()
        assert publisher.told == [(topology.CONTROL, Listening())] * count


async def test_the_slow_look_asks_again_while_somebody_waits(
    store: FakeStore, publisher: FakePublisher, attention: Attention, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)
    turns: list[None] = []

    def hears() -> bool:
        turns.append(None)
        return True

    async def turn(count: int) -> None:
        async with asyncio.timeout(5):
            while len(turns) < count:  # noqa: ASYNC110 -- the fake has no event for it
                await asyncio.sleep(0)

    await attention.ask()
    watch = Watch(cast("WatchStore", store), attention, hears)
    polling = asyncio.create_task(watch.poll())
    await turn(5)
    assert (len(publisher.told), store.asked) == (1, [])
    with watch.follow(JOB, KEY):
        await turn(10)
    assert len(publisher.told) >= 5
    polling.cancel()
    watch.close()


async def test_what_changes_before_the_dispatchers_know_of_who_waits_is_found(
    store: FakeStore, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By as many looks as there are to be, and no more."""
    monkeypatch.setattr(module, "AGAIN_SECONDS", (0.01, 0.02))
    first, second = (asyncio.create_task(watch.wait(job, KEY, LONG)) for job in (JOB, OTHER))
    await settle()
    store.asked.clear()
    store.jobs[JOB] = Stamp(Status.SUCCEEDED, 0, 0)
    await asyncio.wait_for(first, 5)
    store.jobs[OTHER] = Stamp(Status.SUCCEEDED, 0, 0)
    await asyncio.wait_for(second, 5)
    assert watch.asking is not None
    await asyncio.wait_for(watch.asking, 5)
    assert sum(store.asked) <= 3
    store.jobs[JOB] = Stamp(Status.QUEUED, 0, 0)
    store.asked.clear()
    with watch.follow(JOB, KEY):  # they know by now
        await settle()
        assert watch.asking.done()
    assert store.asked == []


async def test_nobody_looks_again_while_the_broker_is_away(
    store: FakeStore, watch: Watch, publisher: FakePublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow look is quicker then. Who comes next asks anew."""
    monkeypatch.setattr(module, "AGAIN_SECONDS", (0.0,))
    publisher.away = True
    with watch.follow(JOB, KEY):
        await settle()
        assert (watch.asking is None or watch.asking.done(), store.asked) == (True, [])
        publisher.away = False
        with watch.follow(OTHER, KEY):
            await settle()
    assert publisher.told == [(topology.CONTROL, Listening())]
    assert sum(store.asked) == 2


async def test_nothing_is_asked_for_any_more_when_the_gateway_stops(
    watch: Watch, waiting: "asyncio.Task[None]", clock: Clock, publisher: FakePublisher
) -> None:
    assert watch.asking is not None
    assert not watch.asking.done()
    watch.close()
    await asyncio.wait([watch.asking], timeout=5)
    assert watch.asking.cancelled()
    clock.now = SURE_SECONDS
    with watch.follow(JOB, KEY):
        await settle()
    assert len(publisher.told) == 1
    await asyncio.wait_for(waiting, 5)
