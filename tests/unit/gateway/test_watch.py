"""Who is woken, when, and by what."""

import asyncio
import collections
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import ExitStack
from itertools import repeat
from typing import cast
from uuid import UUID

import pytest

from common import ids, messages, topology
from common.broker import Publisher
from common.errors import BrokerUnavailable, DatabaseUnavailable, Reject
from common.jobs import Status
from common.messages import JobQueued, JobsChanged, Listening, Message
from services.gateway import watch as module
from services.gateway.attention import SURE_SECONDS, Attention
from services.gateway.errors import Problem
from services.gateway.store import Key
from services.gateway.watch import Watch
from services.gateway.watch_store import Stamp, WatchStore
from tests.unit.clock import Clock

JOB, OTHER = ids.new(), ids.new()
KEY, STRANGER = Key(ids.new(), ids.new()), Key(ids.new(), ids.new())
LONG = 30.0  # seconds


class FakeStore:
    """Jobs by id, and how often it was asked for how many."""

    def __init__(self) -> None:
        self.jobs = {JOB: Stamp(Status.QUEUED, 0, 0), OTHER: Stamp(Status.QUEUED, 0, 0)}
        self.asked: list[int] = []
        self.away = False
        self.revoked: set[UUID] = set()

    async def find_stamps(self, jobs: Sequence[UUID]) -> dict[UUID, Stamp]:
        self.asked.append(len(jobs))
        if self.away:
            raise DatabaseUnavailable
        return {job: self.jobs[job] for job in jobs if job in self.jobs}

    async def find_revoked(self, keys: Collection[UUID]) -> set[UUID]:
        if self.away:
            raise DatabaseUnavailable
        return self.revoked & set(keys)


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


class FakePublisher:
    """Notes what is told to whom, or is away."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Message]] = []
        self.away = False

    async def tell(self, fanout: str, body: bytes) -> None:
        if self.away:
            raise BrokerUnavailable
        self.told.append((fanout, messages.decode(body)))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def publisher() -> FakePublisher:
    return FakePublisher()


@pytest.fixture
def attention(publisher: FakePublisher, clock: Clock) -> Attention:
    return Attention(cast("Publisher", publisher), clock)


@pytest.fixture
def watch(store: FakeStore, attention: Attention) -> Iterator[Watch]:
    watch = Watch(cast("WatchStore", store), attention, lambda: True)
    yield watch
    watch.close()


@pytest.fixture
async def waiting(watch: Watch) -> AsyncIterator["asyncio.Task[None]"]:
    """Somebody who waits for the job."""
    task = asyncio.create_task(watch.wait(JOB, KEY, LONG))
    await settle()
    assert not task.done()
    yield task
    task.cancel()
    await asyncio.wait([task])
    assert watch.watched == {}
    assert watch.count == 0


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def ring(watch: Watch, *jobs: UUID) -> None:
    await watch.handle(JobsChanged(list(jobs)), None)
    await settle()


async def test_a_ring_for_an_ended_job_ends_the_wait(
    store: FakeStore, watch: Watch, waiting: "asyncio.Task[None]"
) -> None:
    store.jobs[JOB] = Stamp(Status.PROCESSING, 1, 0)
    await ring(watch, JOB)
    assert not waiting.done()
    store.jobs[JOB] = Stamp(Status.SUCCEEDED, 1, 0)
    await settle()
    assert not waiting.done()  # nobody looks without a ring
    await ring(watch, JOB)
    assert waiting.done()


async def test_rings_for_others_cost_nothing(store: FakeStore, watch: Watch, waiting: "asyncio.Task[None]") -> None:
    asked = len(store.asked)
    await ring(watch, OTHER, ids.new())
    assert len(store.asked) == asked
    assert not waiting.done()


async def test_all_who_wait_are_looked_up_together(store: FakeStore, watch: Watch) -> None:
    others = [ids.new() for _ in range(500)]
    store.jobs |= dict.fromkeys(others, Stamp(Status.QUEUED, 0, 0))
    tasks = [asyncio.create_task(watch.wait(job, KEY, LONG)) for job in others for _ in range(2)]
    await settle()
    assert len(store.asked) <= 2
    store.jobs |= dict.fromkeys(others, Stamp(Status.SUCCEEDED, 0, 0))
    store.asked.clear()
    await ring(watch, *others)
    assert store.asked[0] <= 500
    assert len(store.asked) <= 2
    await asyncio.wait_for(asyncio.gather(*tasks), 5)


async def test_a_job_that_has_ended_or_is_gone_is_not_waited_for(store: FakeStore, watch: Watch) -> None:
    store.jobs[JOB] = Stamp(Status.FAILED, 3, 0)
    async with asyncio.timeout(5):
        await watch.wait(JOB, KEY, LONG)
        await watch.wait(ids.new(), KEY, LONG)


async def test_a_wait_ends_in_time(watch: Watch) -> None:
    async with asyncio.timeout(5):
        await watch.wait(JOB, KEY, 0.01)


async def test_a_lost_ring_is_found_by_the_slow_look(
    store: FakeStore, watch: Watch, waiting: "asyncio.Task[None]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)
    store.away = True
    polling = asyncio.create_task(watch.poll())
    while len(store.asked) < 4:  # noqa: ASYNC110 -- the fake has no event for it
        await asyncio.sleep(0)
    store.away = False
    store.jobs[JOB] = Stamp(Status.SUCCEEDED, 1, 0)
    await asyncio.wait_for(waiting, 5)
    polling.cancel()


async def test_the_look_is_quicker_while_no_rings_arrive(
    store: FakeStore, attention: Attention, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", LONG)
    monkeypatch.setattr(module, "BLIND_SECONDS", 0.001)
    deaf = Watch(cast("WatchStore", store), attention, lambda: False)
    polling = asyncio.create_task(deaf.poll())
    waiting = asyncio.create_task(deaf.wait(JOB, KEY, LONG))
    await settle()
    store.jobs[JOB] = Stamp(Status.CANCELED, 0, 0)
    await asyncio.wait_for(waiting, 5)
    polling.cancel()
    deaf.close()


async def test_whoever_waits_is_answered_when_the_gateway_stops(watch: Watch, waiting: "asyncio.Task[None]") -> None:
    watch.close()
    await asyncio.wait_for(waiting, 5)
    async with asyncio.timeout(5):
        await watch.wait(JOB, KEY, LONG)


async def test_whoever_waits_with_a_revoked_key_is_refused_soon(
    store: FakeStore, watch: Watch, waiting: "asyncio.Task[None]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEY_SECONDS", 0.001)
    stranger = asyncio.create_task(watch.wait(JOB, STRANGER, LONG))
    await settle()
    store.away, store.revoked = True, {STRANGER.id}
    await watch.drop_revoked()  # nobody knows
    store.away = False
    looking = asyncio.create_task(watch.watch_keys())
    with pytest.raises(Problem) as caught:
        await asyncio.wait_for(stranger, 5)
    assert caught.value.status == 401
    assert not waiting.done()
    looking.cancel()


async def test_there_is_room_for_so_many_only(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WATCHERS", 1)
    with watch.follow(JOB, KEY), pytest.raises(Problem) as caught, watch.follow(OTHER, STRANGER):
        pass
    assert (caught.value.status, caught.value.code) == (503, "overloaded")
    with watch.follow(OTHER, STRANGER):
        pass


async def test_nobody_takes_all_the_room(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each as much as is left, so that the next one finds some."""
    monkeypatch.setattr(module, "MAX_WATCHERS", 16)
    shares = []
    with ExitStack() as stack:
        for tenant in (KEY, STRANGER, Key(ids.new(), ids.new())):
            before = watch.count
            with pytest.raises(Problem) as caught:
                collections.deque(map(stack.enter_context, map(watch.follow, repeat(JOB), repeat(tenant))))
            shares.append(watch.count - before)
            assert (caught.value.status, caught.value.code) == (429, "too_many_waiting")
            assert caught.value.headers == {"Retry-After": "5"}
    assert shares == [8, 4, 2]
    assert (watch.count, watch.held) == (0, {})


async def test_another_message_does_not_belong_here(watch: Watch) -> None:
    with pytest.raises(Reject):
        await watch.handle(JobQueued(JOB), None)


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
