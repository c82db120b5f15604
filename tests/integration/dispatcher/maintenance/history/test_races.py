"""Whoever waits for a row that moves to another generation goes on with what it is then."""

import asyncio

import pytest

from common import ids
from common.job_states import Status
from common.jobs.cancel import cancel_queued, cancel_running, lock_job
from common.jobs.end import end_jobs
from common.jobs.new_event import NewEvent
from common.jobs.remove import remove_jobs
from common.jobs.retry import retry_jobs
from services.dispatcher.maintenance.history.store import NIL, QUERIES, HistoryStore
from services.dispatcher.maintenance.retention.store import EndedJob
from services.gateway.events.store import START, EventStore
from services.gateway.http.problems import Problem
from services.gateway.jobs.actions.retry import RETRYABLE
from services.gateway.webhooks.deliveries.store import DeliveryStore
from services.notifier.delivery_attempts.recorder import make_record
from services.notifier.delivery_attempts.store import AttemptStore
from tests.integration.deliveries import look_at
from tests.integration.dispatcher.maintenance.history.past import AGAIN, RETENTION, SIXTH, Past, make_counts
from tests.integration.jobs import TRACEPARENT, claim, look, new_end, submit, take, trace
from tests.integration.notifier.steps import FAILED, OK
from tests.integration.transactions import OpenTransaction
from tests.integration.waiting import until_blocked
from tests.integration.world import World

END = """
UPDATE jobs SET status = 'canceled', finished_at = now(), generation = current_generation()
WHERE id = $1 AND generation = 0
"""
FOUND = "SELECT created_at, id, finished_at FROM jobs WHERE id = $1"


@pytest.fixture
def world(past: Past) -> World:
    return World(past.database, past.tenant)


async def test_a_cancel_that_waits_for_an_end_is_a_conflict(past: Past, world: World) -> None:
    running = await claim(past.database, await submit(past.database, past.tenant))
    async with past.database.transaction() as connection:
        assert await end_jobs(connection, [new_end(running)])
        canceling = asyncio.create_task(world.canceler.cancel(past.tenant, running.id))
        await until_blocked(past.database)
    with pytest.raises(Problem) as refused:
        await canceling
    assert refused.value.status == 409


async def test_an_end_that_waits_for_a_cancel_is_not_recorded(past: Past) -> None:
    job = await submit(past.database, past.tenant)
    row = await claim(past.database, await submit(past.database, past.tenant))
    late = new_end(row, Status.EXPIRED, id=job, claim=0, was="queued")
    async with past.database.transaction() as connection:
        locked = await lock_job(connection, job, past.tenant)
        assert locked is not None
        event = NewEvent(ids.new(), "job.canceled", 1, b"{}", TRACEPARENT)
        await cancel_queued(connection, job, locked.now, event)
        ending = asyncio.create_task(end_jobs(past.database, [late]))
        await until_blocked(past.database)
    assert await ending == set()
    assert (await look(past.database, job)).status is Status.CANCELED
    assert (await trace(past.database, job)).events == ["job.canceled"]


async def test_an_end_that_waits_for_a_cancel_request_is_recorded(past: Past) -> None:
    running = await claim(past.database, await submit(past.database, past.tenant))
    async with past.database.transaction() as connection:
        assert await lock_job(connection, running.id, past.tenant)
        await cancel_running(connection, running.id)
        ending = asyncio.create_task(end_jobs(past.database, [new_end(running)]))
        await until_blocked(past.database)
    assert await ending
    assert (await look(past.database, running.id)).status is Status.SUCCEEDED


async def test_the_first_of_two_ends_wins(past: Past) -> None:
    jobs = [await claim(past.database, await submit(past.database, past.tenant)) for _ in range(2)]
    late = [new_end(job, Status.FAILED) for job in jobs]
    async with past.database.transaction() as connection:
        assert await end_jobs(connection, [new_end(jobs[0])])
        ending = asyncio.create_task(end_jobs(past.database, late))
        await until_blocked(past.database)
    assert await ending == {late[1].event.id}
    assert [(await look(past.database, job.id)).status for job in jobs] == [Status.SUCCEEDED, Status.FAILED]
    assert (await trace(past.database, jobs[0].id)).events == ["job.succeeded"]


@pytest.mark.parametrize("action", ["redeliver", "erase"])
async def test_a_success_is_recorded_before_a_redelivery_or_an_erasure(past: Past, world: World, action: str) -> None:
    """The lease has lapsed, and the attempt was made all the same."""
    old = await past.add(Status.SUCCEEDED, AGAIN)
    (sent,) = await past.notifier.claim()
    await past.database.fetch("UPDATE deliveries SET lease_until = now() - interval '1 s'")
    await past.database.fetch("UPDATE endpoints SET failures = 0, failing_since = NULL")

    async def redeliver() -> bool:
        async with past.database.transaction() as connection:
            assert await DeliveryStore(past.database).lock(connection, old.delivery, past.tenant)
            await DeliveryStore(past.database).redeliver(connection, old.delivery)
        return True

    async with past.database.transaction() as connection:
        store = AttemptStore(past.database, OpenTransaction(connection))
        assert await store.record_successes([make_record(sent, *OK)], 10)
        acting = asyncio.create_task(redeliver() if action == "redeliver" else world.eraser.erase(past.tenant, old.id))
        await until_blocked(past.database)
    assert await acting is True
    if action == "redeliver":
        assert (await look_at(past.database, old.delivery))[:3] == ("pending", 2, 0)
        assert len(await DeliveryStore(past.database).list_attempts([old.delivery], 10)) == 2
    else:
        assert await past.count() == make_counts(0, jobs=1, job_attempts=1)


async def test_an_erasure_waits_until_history_is_kept(past: Past, world: World) -> None:
    old = await past.add(Status.SUCCEEDED, FAILED)
    await past.begin()
    async with past.database.transaction() as connection:
        await connection.fetch(QUERIES["keep_for_deliveries"], 1, NIL, 100)
        erasing = asyncio.create_task(world.eraser.erase(past.tenant, old.id))
        await until_blocked(past.database)
    assert await erasing is True
    assert await past.count() == make_counts(0, jobs=1, job_attempts=1)


async def test_a_retry_that_waits_for_the_own_retention_finds_no_job(past: Past, world: World) -> None:
    old = await past.add(Status.FAILED)
    await past.pass_time(0)
    (found,) = await past.database.fetch(FOUND, old.id)
    async with past.database.transaction() as connection:
        assert (await remove_jobs(connection, [EndedJob(*found)]))[0] == 1
        retrying = asyncio.create_task(world.retry(old.id))
        await until_blocked(past.database)
    assert await retrying == set()
    assert await past.count() == make_counts(0)


async def test_the_own_retention_leaves_a_job_that_is_retried(past: Past) -> None:
    old = await past.add(Status.FAILED)
    await past.pass_time(0)
    (found,) = await past.database.fetch(FOUND, old.id)
    async with past.database.transaction() as connection:
        assert await retry_jobs(connection, past.tenant, [old.id], RETRYABLE, None)
        assert (await remove_jobs(past.database, [EndedJob(*found)]))[0] == 0
    assert (await remove_jobs(past.database, [EndedJob(*found)]))[0] == 0
    assert (await look(past.database, old.id)).status is Status.QUEUED


async def test_the_second_of_two_retries_finds_a_waiting_job(past: Past, world: World) -> None:
    old = await past.add(Status.FAILED)
    async with past.database.transaction() as connection:
        assert await retry_jobs(connection, past.tenant, [old.id], RETRYABLE, None)
        retrying = asyncio.create_task(world.retry(old.id))
        await until_blocked(past.database)
    assert await retrying == set()


async def test_jobs_are_submitted_claimed_and_ended_while_a_generation_is_emptied(past: Past) -> None:
    """Whoever only adds to history does not wait for it."""
    await past.add()
    await past.begin()
    running = await claim(past.database, await submit(past.database, past.tenant))
    async with past.database.transaction() as connection:
        assert await HistoryStore(OpenTransaction(connection)).empty(1, 0.0)
        job = await submit(past.database, past.tenant)
        (other,) = await take(past.database)
        assert other.id == job
        assert len(await end_jobs(past.database, [new_end(running), new_end(other)])) == 2
    assert (await past.count())["jobs"] == 2


async def test_an_end_that_began_before_the_next_generation_belongs_to_the_old_one(past: Past) -> None:
    job = await submit(past.database, past.tenant)
    async with past.database.transaction() as connection:
        await connection.execute(END, job)
        assert await past.begin() == 2
        await past.pass_time(RETENTION)
        assert await past.sweep() == 0  # the open transaction holds it
    (row,) = await past.database.fetch("SELECT generation FROM jobs")
    assert row["generation"] == 1
    assert await past.sweep() == 1
    assert not await past.has(job)


async def test_two_dispatchers_begin_one_generation(past: Past) -> None:
    """The second one must not empty what the first one began."""
    await past.pass_time(SIXTH)
    async with past.database.transaction() as connection:
        await connection.fetch("SELECT FROM generations FOR UPDATE")
        beginning = [asyncio.create_task(past.store.begin_next(SIXTH)) for _ in range(2)]
        await until_blocked(past.database, 2)
    assert sorted([str(await each) for each in beginning]) == ["2", "None"]


async def test_a_dispatcher_that_was_frozen_empties_no_generation_that_is_in_use_again(past: Past) -> None:
    job = await past.add_silent()
    assert await past.store.empty(1, RETENTION) is False
    assert await past.has(job)


async def test_what_is_retried_or_redelivered_while_its_generation_is_emptied_keeps_its_history(
    past: Past, world: World
) -> None:
    """After the search for what has to be kept."""
    await world.begin()
    dead, sent = await past.add(Status.FAILED), await past.add()
    await past.begin()
    events, deliveries = EventStore(past.database), DeliveryStore(past.database)
    attempts = len(await deliveries.list_attempts([sent.delivery], 10))
    await past.store.keep_for_deliveries(1, (NIL,), 100)
    await past.store.keep_for_jobs(1, (NIL,), 100)
    assert await world.retry(dead.id) == {dead.id}
    before = await events.list_history(dead.id, START, 100, 10**6)
    async with past.database.transaction() as connection:
        assert await deliveries.lock(connection, sent.delivery, past.tenant)
        await deliveries.redeliver(connection, sent.delivery)
    await past.pass_time(RETENTION)
    assert await past.store.empty(1, RETENTION)
    assert await events.list_history(dead.id, START, 100, 10**6) == before
    assert len(await deliveries.list_attempts([sent.delivery], 10)) == attempts
    assert [each.id for each in await past.attempt(OK)] == [sent.delivery]
