"""When waiters are announced to the dispatchers, and how changes before that are found."""

import asyncio

import pytest

from common.job_states import Status
from common.rabbitmq import topology
from common.rabbitmq.messages import WAITERS_SECONDS, WaitersPresent
from services.gateway.events import waiters as module
from services.gateway.events.store import JobSnapshot
from services.gateway.events.waiter_presence import WaiterPresence
from services.gateway.events.waiters import Waiters
from tests.unit.clock import LATE, Clock
from tests.unit.gateway.events.fakes import JOB, KEY, LONG, OTHER, STRANGER, FakeStore, RecordedPublisher, run_pending


async def test_the_first_waiter_is_announced(waiters: Waiters, publisher: RecordedPublisher, clock: Clock) -> None:
    """One announcement covers all waiters that come soon after."""
    for now, count in ((0.0, 1), (WAITERS_SECONDS - 1, 1), (WAITERS_SECONDS, 2)):
        clock.now = now
        with waiters.register(JOB, KEY), waiters.register(OTHER, STRANGER):
            await run_pending()
        assert publisher.published == [(topology.CONTROL_EXCHANGE, WaitersPresent())] * count


async def test_the_poll_announces_again_while_somebody_waits(
    store: FakeStore, publisher: RecordedPublisher, presence: WaiterPresence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)
    turns: list[None] = []

    def is_connected() -> bool:
        turns.append(None)
        return True

    async def turn(count: int) -> None:
        async with asyncio.timeout(LATE):
            while len(turns) < count:  # noqa: ASYNC110 -- the fake has no event for it
                await asyncio.sleep(0)

    await presence.announce()
    waiters = Waiters(store, presence, is_connected)
    polling = asyncio.create_task(waiters.poll())
    await turn(5)
    assert (len(publisher.published), store.queries) == (1, [])
    with waiters.register(JOB, KEY):
        await turn(10)
    assert len(publisher.published) >= 5
    polling.cancel()
    waiters.close()


async def test_a_change_before_the_announcement_arrives_is_found(
    store: FakeStore, waiters: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are no more rechecks than RECHECK_SECONDS has pauses."""
    monkeypatch.setattr(module, "RECHECK_SECONDS", (0.5, 0.5))  # far longer than the turns of the loop between
    first, second = (asyncio.create_task(waiters.wait(job, KEY, LONG)) for job in (JOB, OTHER))
    await run_pending()
    store.queries.clear()
    store.jobs[JOB] = JobSnapshot(Status.SUCCEEDED, 0, 0)
    await asyncio.wait_for(first, LATE)
    store.jobs[OTHER] = JobSnapshot(Status.SUCCEEDED, 0, 0)
    await asyncio.wait_for(second, LATE)
    assert waiters._announcing is not None
    await asyncio.wait_for(waiters._announcing, LATE)
    assert sum(store.queries) <= 3
    store.jobs[JOB] = JobSnapshot(Status.QUEUED, 0, 0)
    store.queries.clear()
    with waiters.register(JOB, KEY):  # the dispatchers know by now
        await run_pending()
        assert waiters._announcing.done()
    assert store.queries == []


async def test_there_are_no_rechecks_while_the_broker_is_down(
    store: FakeStore, waiters: Waiters, publisher: RecordedPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The poll is quicker then. The next waiter is announced again."""
    monkeypatch.setattr(module, "RECHECK_SECONDS", (0.0,))
    publisher.is_down = True
    with waiters.register(JOB, KEY):
        await run_pending()
        assert (waiters._announcing is None or waiters._announcing.done(), store.queries) == (True, [])
        publisher.is_down = False
        with waiters.register(OTHER, KEY):
            await run_pending()
    assert publisher.published == [(topology.CONTROL_EXCHANGE, WaitersPresent())]
    assert sum(store.queries) == 2


async def test_nothing_is_announced_once_the_gateway_stops(
    waiters: Waiters, clock: Clock, publisher: RecordedPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECHECK_SECONDS", (LONG,))
    waiting = asyncio.create_task(waiters.wait(JOB, KEY, LONG))
    await run_pending()
    assert waiters._announcing is not None
    assert not waiters._announcing.done()
    waiters.close()
    await asyncio.wait([waiters._announcing], timeout=LATE)
    assert waiters._announcing.cancelled()
    clock.now = WAITERS_SECONDS
    with waiters.register(JOB, KEY):
        await run_pending()
    assert len(publisher.published) == 1
    await asyncio.wait_for(waiting, LATE)
