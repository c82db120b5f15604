"""What is needed of an old generation is kept: for deliveries that are not finished, and for jobs that wait again."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from common import ids
from common.job_states import Status
from common.jobs.end import end_jobs
from common.jobs.requeue import requeue_jobs
from services.dispatcher.maintenance.history import history
from services.dispatcher.results.store import ResultStore, Step
from services.gateway.events.store import START, EventStore
from services.gateway.webhooks.deliveries.store import DeliveryStore
from services.gateway.webhooks.store import WebhookStore
from tests.integration.deliveries import look_at
from tests.integration.dispatcher.maintenance.history.past import AGAIN, RETENTION, SIXTH, OldJob, Past, make_counts
from tests.integration.jobs import claim, look, new_end, new_requeue, submit
from tests.integration.notifier.steps import FAILED, GIVEN_UP, LEASE, OK
from tests.integration.world import World

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
GENERATIONS = "SELECT generation FROM jobs WHERE id = $1"
DUE = "UPDATE endpoints SET failures = 0, failing_since = NULL, next_at = now()"


async def wait_since_before(past: Past) -> OldJob:
    return await past.add(Status.SUCCEEDED, FAILED)


async def redeliver(past: Past) -> OldJob:
    old = await past.add()
    await past.begin()
    await redeliver_one(past, old)
    return old


async def redeliver_one(past: Past, old: OldJob) -> None:
    store = DeliveryStore(past.database)
    async with past.database.transaction() as connection:
        assert await store.lock(connection, old.delivery, past.tenant)
        await store.redeliver(connection, old.delivery)


async def recover(past: Past) -> OldJob:
    old = await past.add(Status.SUCCEEDED, AGAIN, GIVEN_UP)
    await past.begin()
    await recover_all(past)
    return old


async def recover_all(past: Past) -> None:
    (webhook,) = await past.database.fetch("SELECT id FROM webhooks")
    async with past.database.transaction() as connection:
        await WebhookStore(past.database).add_recovery(connection, ids.new(), webhook["id"], LONG_AGO, None)
    assert await past.notifier.recovery.advance()


@pytest.mark.parametrize("let_wait", [wait_since_before, redeliver, recover])
async def test_a_delivery_that_is_not_finished_keeps_its_event_its_attempts_and_its_job(
    past: Past, let_wait: Callable[[Past], Awaitable[OldJob]]
) -> None:
    await past.add()
    old = await let_wait(past)
    before = await past.count()
    store = DeliveryStore(past.database)
    attempts = await store.list_attempts([old.delivery], 10)
    assert await past.age() >= 1
    assert await past.has(old.id)
    assert (await past.count())["deliveries"] == 1 < before["deliveries"]
    assert await store.list_attempts([old.delivery], 10) == attempts
    assert [each.id for each in await store.list_by_job(past.tenant, old.id, None, None, 10)]
    await past.database.fetch("UPDATE deliveries SET next_at = now()")
    await past.database.fetch(DUE)
    (sent,) = await past.attempt(OK)
    assert (sent.id, sent.body) == (old.delivery, b"{}")
    assert (await look_at(past.database, old.delivery)).status == "succeeded"
    assert len(await store.list_attempts([old.delivery], 10)) == len(attempts) + 1
    assert await past.age() >= 1
    assert (await past.count())["deliveries"] == 0


@pytest.mark.parametrize("count", [1, 3, 4, 5])
async def test_every_page_of_deliveries_is_examined(past: Past, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(history, "BATCH", 2)
    monkeypatch.setattr(history, "PAUSE_SECONDS", 0.0)
    jobs = [await past.add(Status.SUCCEEDED, FAILED) for _ in range(count)]
    await past.add_silent()
    assert await past.age() == 1
    assert [await past.has(job.id) for job in jobs] == [True] * count
    assert await past.count() == make_counts(count)


@pytest.mark.parametrize("count", [1, 3, 4, 5])
async def test_every_page_of_jobs_is_examined(past: Past, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(history, "BATCH", 2)
    monkeypatch.setattr(history, "PAUSE_SECONDS", 0.0)
    for _ in range(count):
        job = await submit(past.database, past.tenant)
        running = await claim(past.database, job)
        await ResultStore(past.database).add_steps([Step(job, running.claim, 1, b"[]")])
        await requeue_jobs(past.database, [new_requeue(running)])
    assert await past.age() == 1
    assert await past.count() == make_counts(0, jobs=count, job_attempts=count, job_steps=count)


@pytest.mark.parametrize("generations", [0, 1, 5])
async def test_a_dead_letter_that_is_replayed_keeps_its_history_and_ends_in_the_current_generation(
    past: Past, generations: int
) -> None:
    world, store = World(past.database, past.tenant), EventStore(past.database)
    await world.begin()
    old = await past.add(Status.FAILED)
    for _ in range(generations):
        await past.begin()
    assert await world.replay([old.id]) == {old.id}
    before = await store.list_history(old.id, START, 100, 10**6)
    for _ in range(2):
        assert await past.age() >= 1
        assert await store.list_history(old.id, START, 100, 10**6) == before
    assert await past.count() == make_counts(1, job_attempts=2, job_steps=2)
    running = await claim(past.database, old.id)
    assert await end_jobs(past.database, [new_end(running)])
    assert (await look(past.database, old.id)).status is Status.SUCCEEDED
    (row,) = await past.database.fetch(GENERATIONS, old.id)
    assert row["generation"] == await past.find_current()
    types = [each.type for each in await store.list_history(old.id, START, 100, 10**6)]
    assert types == [*(each.type for each in before), "job.started", "job.succeeded"]


async def test_a_job_that_waits_for_its_next_attempt_keeps_its_history(past: Past) -> None:
    job = await submit(past.database, past.tenant, callback_url="https://a", callback_events=["job.started"])
    world = World(past.database, past.tenant)
    (running,) = await world.claim([job])
    (event,) = await past.database.fetch("SELECT id FROM events")
    await past.notifier.record(await past.notifier.take(event["id"], limit=1), OK)
    await past.database.fetch("UPDATE deliveries SET next_at = NULL, lease_until = NULL")
    await ResultStore(past.database).add_steps([Step(job, running.claim, 1, b"[]")])
    await requeue_jobs(past.database, [new_requeue(running, delay=LEASE)])
    assert (await look(past.database, job)).scheduled_at is not None
    before = await EventStore(past.database).list_history(job, START, 100, 10**6)
    assert await past.age() == 1
    assert await EventStore(past.database).list_history(job, START, 100, 10**6) == before
    assert [row["id"] for row in await past.database.fetch("SELECT id FROM events")] == [event["id"]]


async def test_a_delivery_goes_with_its_event(past: Past) -> None:
    """Although it ended in a later generation. So each delivery can be sent again."""
    await past.add(Status.SUCCEEDED, AGAIN)
    await past.begin()
    await past.attempt(GIVEN_UP)
    await past.pass_time(RETENTION - SIXTH)
    await past.store.begin_next(SIXTH)
    await past.pass_time(SIXTH)
    assert await past.sweep() == 1
    assert await past.count() == make_counts(0, events=1)  # the event of its end
