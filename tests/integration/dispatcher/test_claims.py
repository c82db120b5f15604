"""A claim: who gets a job, and for how long."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common import ids
from common.database import Database
from common.jobs import Status
from services.dispatcher.retry import MAX_INTERRUPTIONS
from services.dispatcher.store import QUERIES, Store
from tests.integration.jobs import LEASE, PACKED, claim, lapse, look, make_due, new_end, new_requeue, submit
from tests.integration.waiting import until_blocked


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def test_a_claim_takes_a_lease_and_raises_claim_and_attempt(
    database: Database, store: Store, tenant: UUID
) -> None:
    job = await submit(database, tenant)
    (claimed,) = await store.claim_jobs([job], "worker-1", 30.0)
    assert (claimed.row.status, claimed.row.attempt, claimed.claim) == (Status.PROCESSING, 1, 1)
    assert claimed.tensors == PACKED
    state = await look(database, job)
    assert (state.status, state.attempt, state.claim, state.worker) == (Status.PROCESSING, 1, 1, "worker-1")
    assert state.ring_at is None
    assert state.lease_until is not None
    assert timedelta(seconds=25) < state.lease_until - state.now <= timedelta(seconds=30)


async def test_only_what_is_queued_due_and_not_expired_is_claimed(
    database: Database, store: Store, tenant: UUID
) -> None:
    due = await submit(database, tenant)
    scheduled = await submit(database, tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    expired = await submit(database, tenant, expires_in=100.0)
    await database.fetch("UPDATE jobs SET expires_at = now() - interval '1 ms' WHERE id = $1", expired)
    waiting = await submit(database, tenant, expires_in=100.0)
    running = (await claim(database, await submit(database, tenant))).row.id
    ended = await claim(database, await submit(database, tenant))
    await store.end_jobs([new_end(ended)])
    asked = [scheduled, expired, running, ended.row.id, ids.new(), due, waiting]
    assert {job.row.id for job in await store.claim_jobs(asked, "w", LEASE)} == {due, waiting}


async def test_a_job_named_twice_is_claimed_once(database: Database, store: Store, tenant: UUID) -> None:
    job = await submit(database, tenant)
    claimed = await store.claim_jobs([job, job], "w", LEASE)
    assert [(each.row.id, each.claim) for each in claimed] == [(job, 1)]


async def test_two_dispatchers_never_share_a_job(database: Database, store: Store, tenant: UUID) -> None:
    jobs = [await submit(database, tenant) for _ in range(40)]
    both = await asyncio.gather(
        *(store.claim_jobs(jobs[:: 1 if number % 2 else -1], f"w{number}", LEASE) for number in range(6))
    )
    claimed = [job.row.id for batch in both for job in batch]
    assert sorted(claimed) == sorted(jobs)


async def test_who_waits_for_another_claim_does_not_claim_behind_it(
    database: Database, store: Store, tenant: UUID
) -> None:
    job = await submit(database, tenant)
    async with database.transaction() as first:
        assert len(await first.fetch(QUERIES["claim_jobs"], [job], "first", LEASE, MAX_INTERRUPTIONS)) == 1
        second = asyncio.create_task(store.claim_jobs([job], "second", LEASE))
        await until_blocked(database)
    assert await second == []
    state = await look(database, job)
    assert (state.worker, state.attempt, state.claim) == ("first", 1, 1)


async def test_of_jobs_that_may_have_killed_the_server_one_runs_at_a_time(
    database: Database, store: Store, tenant: UUID
) -> None:
    suspects = [await submit(database, tenant) for _ in range(3)]
    await database.fetch("UPDATE jobs SET interruptions = $1", MAX_INTERRUPTIONS)
    other = await submit(database, tenant)
    await database.fetch("UPDATE jobs SET interruptions = $1 WHERE id = $2", MAX_INTERRUPTIONS - 1, other)
    claimed = {job.row.id: job for job in await store.claim_jobs([*suspects, other], "w", LEASE)}
    assert claimed.keys() == {suspects[0], other}
    assert await store.claim_jobs(suspects, "another", LEASE) == []
    state = await look(database, suspects[1])
    assert (state.status, state.attempt, state.claim) == (Status.QUEUED, 0, 0)
    assert state.ring_at is not None
    assert state.ring_at - state.now <= timedelta(seconds=1)
    await store.end_jobs([new_end(claimed[suspects[0]])])
    assert [job.row.id for job in await store.claim_jobs(suspects[::-1], "another", LEASE)] == [suspects[1]]


async def test_a_job_says_whether_anybody_wants_to_hear_of_its_start(
    database: Database, store: Store, tenant: UUID
) -> None:
    quiet = await claim(database, await submit(database, tenant))
    asked = await submit(database, tenant, callback_url="https://a", callback_events=["job.started"])
    assert (quiet.wants_started, (await claim(database, asked)).wants_started) == (False, True)
    await database.fetch(
        "INSERT INTO webhooks (id, tenant_id, url, events, signing, secret) VALUES ($1, $2, '', '{job.*}', 'hmac', '')",
        ids.new(),
        tenant,
    )
    assert (await claim(database, await submit(database, tenant))).wants_started


async def test_a_lease_is_renewed_only_under_its_own_claim(database: Database, store: Store, tenant: UUID) -> None:
    held = await claim(database, await submit(database, tenant))
    lost = await claim(database, await submit(database, tenant))
    await store.requeue_jobs([new_requeue(lost)])
    again = await claim(database, lost.row.id)
    ended = await claim(database, await submit(database, tenant))
    await store.end_jobs([new_end(ended)])
    claims = [(job.row.id, job.claim) for job in (held, lost, ended)]
    assert await store.renew_leases(claims, 500.0) == {held.row.id: False}
    renewed, untouched = await look(database, held.row.id), await look(database, again.row.id)
    assert renewed.lease_until is not None
    assert untouched.lease_until is not None
    assert renewed.lease_until - renewed.now > timedelta(seconds=450)
    assert untouched.lease_until - untouched.now <= timedelta(seconds=LEASE)


async def test_a_lapsed_lease_can_still_be_renewed_while_nobody_took_the_job(
    database: Database, store: Store, tenant: UUID
) -> None:
    job = await claim(database, await submit(database, tenant))
    await lapse(database, job.row.id)
    assert await store.renew_leases([(job.row.id, job.claim)], LEASE) == {job.row.id: False}
    assert await store.find_abandoned(10) == []


async def test_heartbeats_and_ends_of_the_same_jobs_do_not_deadlock(
    database: Database, store: Store, tenant: UUID
) -> None:
    jobs = [await submit(database, tenant) for _ in range(30)]
    for _ in range(10):
        claimed = await store.claim_jobs(jobs, "w", LEASE)
        held = [(job.row.id, job.claim) for job in reversed(claimed)]
        backs = [new_requeue(job, given_back=True) for job in claimed]
        outcomes = await asyncio.gather(
            *(store.renew_leases(held, LEASE) for _ in range(3)), store.requeue_jobs(backs), return_exceptions=True
        )
        assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
        for job in jobs:
            await make_due(database, job)
