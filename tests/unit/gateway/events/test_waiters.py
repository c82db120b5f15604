"""Which waiters are woken, when, and by what."""

import asyncio
import collections
from contextlib import ExitStack
from itertools import repeat

import pytest

from common import ids
from common.errors import UnknownMessage
from common.job_states import Status
from common.rabbitmq.messages import JobsQueued, QueuedJob
from services.gateway.auth.store import Key
from services.gateway.events import waiters as module
from services.gateway.events.store import JobSnapshot
from services.gateway.events.waiter_presence import WaiterPresence
from services.gateway.events.waiters import Waiters
from services.gateway.http.problems import Problem
from tests.unit.clock import LATE
from tests.unit.gateway.events.fakes import JOB, KEY, LONG, OTHER, STRANGER, FakeStore, run_pending, wake


async def test_a_message_for_an_ended_job_ends_the_wait(
    store: FakeStore, waiters: Waiters, waiting: "asyncio.Task[None]"
) -> None:
    store.jobs[JOB] = JobSnapshot(Status.PROCESSING, 1, 0)
    await wake(waiters, JOB)
    assert not waiting.done()
    store.jobs[JOB] = JobSnapshot(Status.SUCCEEDED, 1, 0)
    await run_pending()
    assert not waiting.done()  # without a message there is no query
    await wake(waiters, JOB)
    assert waiting.done()


async def test_messages_for_other_jobs_cause_no_query(
    store: FakeStore, waiters: Waiters, waiting: "asyncio.Task[None]"
) -> None:
    before = len(store.queries)
    await wake(waiters, OTHER, ids.new())
    assert len(store.queries) == before
    assert not waiting.done()


async def test_all_jobs_are_read_in_one_query(store: FakeStore, waiters: Waiters) -> None:
    others = [ids.new() for _ in range(500)]
    store.jobs |= dict.fromkeys(others, JobSnapshot(Status.QUEUED, 0, 0))
    tasks = [asyncio.create_task(waiters.wait(job, KEY, LONG)) for job in others for _ in range(2)]
    async with asyncio.timeout(LATE):
        while sum(store.queries) < len(tasks):  # every wait begins with a look at its job
            await run_pending()
    assert len(store.queries) <= 2
    store.jobs |= dict.fromkeys(others, JobSnapshot(Status.SUCCEEDED, 0, 0))
    store.queries.clear()
    await wake(waiters, *others)
    assert store.queries[0] <= 500
    assert len(store.queries) <= 2
    await asyncio.wait_for(asyncio.gather(*tasks), LATE)


async def test_a_wait_for_an_ended_or_deleted_job_returns_at_once(store: FakeStore, waiters: Waiters) -> None:
    store.jobs[JOB] = JobSnapshot(Status.FAILED, 3, 0)
    async with asyncio.timeout(LATE):
        await waiters.wait(JOB, KEY, LONG)
        await waiters.wait(ids.new(), KEY, LONG)


async def test_a_wait_ends_after_its_timeout(waiters: Waiters) -> None:
    async with asyncio.timeout(LATE):
        await waiters.wait(JOB, KEY, 0.01)


async def test_the_poll_finds_a_change_whose_message_was_lost(
    store: FakeStore, waiters: Waiters, waiting: "asyncio.Task[None]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)
    store.is_down = True
    polling = asyncio.create_task(waiters.poll())
    while len(store.queries) < 4:  # noqa: ASYNC110 -- the fake has no event for it
        await asyncio.sleep(0)
    store.is_down = False
    store.jobs[JOB] = JobSnapshot(Status.SUCCEEDED, 1, 0)
    await asyncio.wait_for(waiting, LATE)
    polling.cancel()


async def test_the_poll_is_quicker_while_no_messages_arrive(
    store: FakeStore, presence: WaiterPresence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", LONG)
    monkeypatch.setattr(module, "OFFLINE_POLL_SECONDS", 0.001)
    offline = Waiters(store, presence, lambda: False)
    polling = asyncio.create_task(offline.poll())
    waiting = asyncio.create_task(offline.wait(JOB, KEY, LONG))
    await run_pending()
    store.jobs[JOB] = JobSnapshot(Status.CANCELED, 0, 0)
    await asyncio.wait_for(waiting, LATE)
    polling.cancel()
    offline.close()


async def test_every_wait_returns_when_the_gateway_stops(waiters: Waiters, waiting: "asyncio.Task[None]") -> None:
    waiters.close()
    await asyncio.wait_for(waiting, LATE)
    async with asyncio.timeout(LATE):
        await waiters.wait(JOB, KEY, LONG)


async def test_a_waiter_with_a_revoked_key_is_refused_soon(
    store: FakeStore, waiters: Waiters, waiting: "asyncio.Task[None]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEY_CHECK_SECONDS", 0.001)
    stranger = asyncio.create_task(waiters.wait(JOB, STRANGER, LONG))
    await run_pending()
    store.is_down, store.revoked = True, {STRANGER.id}
    await waiters.wake_revoked()  # unknown while the database is down
    store.is_down = False
    polling = asyncio.create_task(waiters.poll_keys())
    with pytest.raises(Problem) as caught:
        await asyncio.wait_for(stranger, LATE)
    assert caught.value.status == 401
    assert not waiting.done()
    polling.cancel()


async def test_the_number_of_waiters_is_limited(waiters: Waiters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITERS", 1)
    with waiters.register(JOB, KEY), pytest.raises(Problem) as caught, waiters.register(OTHER, STRANGER):
        pass
    assert (caught.value.status, caught.value.code) == (503, "overloaded")
    with waiters.register(OTHER, STRANGER):
        pass


async def test_no_tenant_takes_all_places(waiters: Waiters, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant may take half of what is left, so that the next tenant finds some."""
    monkeypatch.setattr(module, "MAX_WAITERS", 16)
    shares = []
    with ExitStack() as stack:
        for tenant in (KEY, STRANGER, Key(ids.new(), ids.new())):
            before = waiters.count
            with pytest.raises(Problem) as caught:
                collections.deque(map(stack.enter_context, map(waiters.register, repeat(JOB), repeat(tenant))))
            shares.append(waiters.count - before)
            assert (caught.value.status, caught.value.code) == (429, "too_many_waiting")
            assert caught.value.headers == {"Retry-After": "5"}
    assert shares == [8, 4, 2]
    assert (waiters.count, waiters._per_tenant) == (0, {})


async def test_an_unexpected_message_is_unknown(waiters: Waiters) -> None:
    with pytest.raises(UnknownMessage):
        await waiters.handle(JobsQueued([QueuedJob(ids.new(), ids.new())]), None)
