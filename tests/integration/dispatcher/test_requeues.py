"""The way back to the queue, and what time brings about."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common import messages
from common.database import Database
from common.jobs import Status
from common.messages import JobQueued
from services.dispatcher.store import Store
from services.dispatcher.triton import Model
from tests.integration.jobs import claim, lapse, look, make_due, new_end, new_requeue, submit, take


@pytest.fixture
async def store(database: Database) -> Store:
    store = Store(database)
    await store.save_models([(Model("echo", "1", False, 0, 1, [], []), True)])
    return store


async def test_a_requeued_job_waits_out_its_delay(database: Database, store: Store, tenant: UUID) -> None:
    job = await claim(database, await submit(database, tenant))
    assert await store.requeue_jobs([new_requeue(job, delay=30.0)]) == {job.row.id}
    state = await look(database, job.row.id)
    assert (state.status, state.attempt, state.claim, state.lease_until) == (Status.QUEUED, 1, 1, None)
    assert state.error_code == "inference_failed"
    assert state.run_at == state.ring_at
    assert timedelta(seconds=25) < state.run_at - state.now <= timedelta(seconds=30)
    assert await take(database) == []


async def test_giving_back_lowers_the_attempt_but_never_the_claim(
    database: Database, store: Store, tenant: UUID
) -> None:
    job = await claim(database, await submit(database, tenant))
    await store.requeue_jobs([new_requeue(job, given_back=True, interrupted=True)])
    state = await look(database, job.row.id)
    assert (state.attempt, state.claim, state.interruptions) == (0, 1, 1)
    await make_due(database, job.row.id)
    again = await claim(database, job.row.id)
    assert (again.row.attempt, again.claim, again.interruptions) == (1, 2, 1)


async def test_a_worker_that_stops_takes_nothing_from_a_jobs_interruptions(
    database: Database, store: Store, tenant: UUID
) -> None:
    job = await claim(database, await submit(database, tenant))
    await store.requeue_jobs([new_requeue(job, given_back=True)])
    state = await look(database, job.row.id)
    assert (state.attempt, state.interruptions) == (0, 0)


async def test_a_first_attempt_that_triton_refused_is_no_start(database: Database, store: Store, tenant: UUID) -> None:
    """So the job may still expire; one that had been run may not."""
    refused = await claim(database, await submit(database, tenant, expires_in=1000.0))
    interrupted = await claim(database, await submit(database, tenant, expires_in=1000.0))
    tried = await claim(database, await submit(database, tenant, expires_in=1000.0))
    await store.requeue_jobs([new_requeue(tried)])
    await make_due(database, tried.row.id)
    tried = await claim(database, tried.row.id)
    backs = [new_requeue(job, given_back=True, refused=True) for job in (refused, tried)]
    await store.requeue_jobs([*backs, new_requeue(interrupted, given_back=True, interrupted=True)])
    await database.fetch("UPDATE jobs SET expires_at = now()")
    assert [job.row.id for job, _ in await store.find_expired(10)] == [refused.row.id]


async def test_a_fallback_gets_one_attempt_and_no_fallback_of_its_own(
    database: Database, store: Store, tenant: UUID
) -> None:
    job = await claim(database, await submit(database, tenant, max_attempts=1, version="3", fallback_model="small"))
    await store.requeue_jobs([new_requeue(job, fallback="small")])
    state = await look(database, job.row.id)
    assert (state.model, state.attempt, state.max_attempts, state.fallback_model) == ("small", 1, 2, None)
    await make_due(database, job.row.id)
    again = await claim(database, job.row.id)
    assert (again.row.model, again.row.version, again.row.attempt) == ("small", None, 2)


async def test_an_early_fallback_forfeits_the_attempts_that_were_left(
    database: Database, store: Store, tenant: UUID
) -> None:
    job = await claim(database, await submit(database, tenant, max_attempts=5, fallback_model="small"))
    await store.requeue_jobs([new_requeue(job, fallback="small")])
    assert (await look(database, job.row.id)).max_attempts == 2


async def test_an_old_claim_requeues_nothing(database: Database, store: Store, tenant: UUID) -> None:
    old = await claim(database, await submit(database, tenant))
    await store.requeue_jobs([new_requeue(old)])
    await make_due(database, old.row.id)
    new = await claim(database, old.row.id)
    assert await store.requeue_jobs([new_requeue(old, given_back=True)]) == set()
    state = await look(database, old.row.id)
    assert (state.status, state.attempt, state.claim) == (Status.PROCESSING, 2, new.claim)
    await store.end_jobs([new_end(new)])
    assert await store.requeue_jobs([new_requeue(new)]) == set()


@pytest.mark.parametrize("stale_first", [True, False])
async def test_an_old_claim_loses_against_the_new_one_in_the_same_call(
    database: Database, store: Store, tenant: UUID, stale_first: bool
) -> None:
    old = await claim(database, await submit(database, tenant))
    await store.requeue_jobs([new_requeue(old)])
    await make_due(database, old.row.id)
    new = await claim(database, old.row.id)
    backs = [new_requeue(old, given_back=True), new_requeue(new, delay=100.0)]
    await store.requeue_jobs(backs if stale_first else backs[::-1])
    state = await look(database, old.row.id)
    assert (state.attempt, state.interruptions) == (2, 0)
    assert state.run_at - state.now > timedelta(seconds=90)


async def test_only_lapsed_leases_are_found_abandoned(database: Database, store: Store, tenant: UUID) -> None:
    await claim(database, await submit(database, tenant))
    job = await claim(database, await submit(database, tenant, metadata=b"{}"))
    await lapse(database, job.row.id)
    ((found, now),) = await store.find_abandoned(10)
    assert (found.row.id, found.claim, found.row.metadata) == (job.row.id, job.claim, b"{}")
    assert abs(now - datetime.now(UTC)) < timedelta(minutes=1)


async def test_only_queued_jobs_expire(database: Database, store: Store, tenant: UUID) -> None:
    await submit(database, tenant)
    await submit(database, tenant, expires_in=1000.0)
    job = await submit(database, tenant, expires_in=1000.0)
    running = await claim(database, await submit(database, tenant, expires_in=1000.0))
    for each in (job, running.row.id):
        await database.fetch("UPDATE jobs SET expires_at = now() WHERE id = $1", each)
    assert [found.row.id for found, _ in await store.find_expired(10)] == [job]


async def test_a_scheduled_job_is_rung_for_when_it_is_due(database: Database, store: Store, tenant: UUID) -> None:
    job = await submit(database, tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    assert await store.ring_due(10) == ([], [])
    await make_due(database, job)
    ((doorbell,), _) = await store.ring_due(10)
    assert messages.decode(doorbell.body) == JobQueued(job)
    assert doorbell.routing_key == "job.normal.echo"
    (row,) = await database.fetch("SELECT body FROM outbox WHERE id = $1", doorbell.id)
    assert row["body"] == doorbell.body


async def test_the_next_ring_comes_after_as_long_as_the_job_has_waited(
    database: Database, store: Store, tenant: UUID
) -> None:
    new, old = await submit(database, tenant), await submit(database, tenant)
    for job in (new, old):
        await make_due(database, job)
    await database.fetch("UPDATE jobs SET run_at = now() - interval '1 hour' WHERE id = $1", old)
    assert len((await store.ring_due(10)).rung) == 2
    assert await store.ring_due(10) == ([], [])
    for job, wait in ((new, timedelta(minutes=1)), (old, timedelta(hours=1))):
        state = await look(database, job)
        assert state.ring_at is not None
        assert abs(state.ring_at - state.now - wait) < timedelta(seconds=10)


async def test_a_running_job_is_not_rung_for(database: Database, store: Store, tenant: UUID) -> None:
    await claim(database, await submit(database, tenant))
    assert await store.ring_due(10) == ([], [])
