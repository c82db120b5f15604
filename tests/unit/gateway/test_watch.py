"""Who is woken, when, and by what."""

import asyncio
import collections
from contextlib import ExitStack
from itertools import repeat
from typing import cast

import pytest

from common import ids
from common.errors import Reject
from common.jobs import Status
from common.messages import JobQueued
from services.gateway import watch as module
from services.gateway.attention import Attention
from services.gateway.errors import Problem
from services.gateway.store import Key
from services.gateway.watch import Watch
from services.gateway.watch_store import Stamp, WatchStore
from tests.unit.gateway.watching import JOB, KEY, LONG, OTHER, STRANGER, FakeStore, ring, settle


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
