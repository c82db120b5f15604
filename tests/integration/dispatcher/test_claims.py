"""A claim: who gets a job, and for how long."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common import ids
from common.database import Database
from common.jobs import Priority, Status
from services.dispatcher.catalogue import Runnable
from services.dispatcher.claims import Claims, Empty
from services.dispatcher.retry import MAX_INTERRUPTIONS
from services.dispatcher.store import QUERIES, ClaimedJob, Store
from services.dispatcher.triton import Model
from services.dispatcher.turns import NOBODY, NONE
from tests.integration.jobs import LEASE, PACKED, claim, lapse, make_due, new_end, new_requeue, ring, submit, take
from tests.integration.jobs import look as get
from tests.integration.waiting import until_blocked


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def test_a_claim_takes_a_lease_and_raises_claim_and_attempt(
    database: Database, store: Store, tenant: UUID
) -> None:
    job = await submit(database, tenant)
    (claimed,) = await take(database, worker="worker-1", lease=30.0)
    assert (claimed.row.status, claimed.row.attempt, claimed.claim) == (Status.PROCESSING, 1, 1)
    assert claimed.tensors == PACKED
    state = await get(database, job)
    assert (state.status, state.attempt, state.claim, state.worker) == (Status.PROCESSING, 1, 1, "worker-1")
    assert state.ring_at is None
    assert state.lease_until is not None
    assert timedelta(seconds=25) < state.lease_until - state.now <= timedelta(seconds=30)


async def test_only_what_is_queued_due_and_not_expired_is_claimed(
    database: Database, store: Store, tenant: UUID
) -> None:
    due = await submit(database, tenant)
    await submit(database, tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    expired = await submit(database, tenant, expires_in=100.0)
    await database.fetch("UPDATE jobs SET expires_at = now() - interval '1 ms' WHERE id = $1", expired)
    waiting = await submit(database, tenant, expires_in=100.0)
    await claim(database, await submit(database, tenant))
    ended = await claim(database, await submit(database, tenant))
    await store.end_jobs([new_end(ended)])
    await submit(database, tenant, model="other")
    await submit(database, tenant, priority=Priority.HIGH)
    assert {job.row.id for job in await take(database, 9)} == {due, waiting}
    assert await take(database, 9) == []


async def test_a_job_is_claimed_by_any_doorbell_once_it_was_rung_for(
    database: Database, store: Store, tenant: UUID
) -> None:
    """Else the doorbell's own job would be left without one."""
    await store.save_models([(Model("echo", "1", False, 0, 1, [], []), True)])
    again = await claim(database, await submit(database, tenant))
    await store.requeue_jobs([new_requeue(again)])
    own = await submit(database, tenant)
    assert [job.row.id for job in await take(database)] == [own]
    assert await take(database) == []
    assert len((await store.ring_due(10)).rung) == 1
    assert [job.row.id for job in await take(database)] == [again.row.id]


async def test_two_dispatchers_never_share_a_job(database: Database, tenant: UUID) -> None:
    jobs = [await submit(database, tenant) for _ in range(40)]
    rights, claimed = [5] * 8, list[ClaimedJob]()
    while len(claimed) < len(jobs):  # what others held in that moment is claimed by the next look
        both = await asyncio.gather(*(take(database, count, worker=f"w{count}") for count in rights))
        claimed += [job for batch in both for job in batch]
    assert sorted(job.row.id for job in claimed) == sorted(jobs)
    assert {job.claim for job in claimed} == {1}


async def test_what_another_claim_holds_is_left_to_it(database: Database, store: Store, tenant: UUID) -> None:
    held, free = sorted([await submit(database, tenant) for _ in range(2)])
    queue, turn = ("echo", "normal"), (NONE, list[UUID](), list[int]())

    async def look(count: int) -> tuple[list[UUID], bool]:
        found = await store.claim_jobs("echo", Priority.NORMAL, count, NOBODY, {}, "second", LEASE)
        return [job.row.id for job in found.jobs], found.contended

    async with database.transaction() as first:
        found = await first.fetch(QUERIES["claim_jobs"], *queue, 1, *turn, "first", LEASE, 3, NONE)
        assert [record["id"] for record in found] == [held]
        assert await look(2) == ([free], True)
    assert await look(2) == ([], False)
    state = await get(database, held)
    assert (state.worker, state.attempt, state.claim) == ("first", 1, 1)


async def test_a_doorbell_comes_for_what_another_transaction_holds(database: Database, tenant: UUID) -> None:
    job = await submit(database, tenant)
    model, claims = Runnable("echo", asyncio.Event()), Claims(Store(database), worker="w", lease=LEASE)
    async with database.transaction() as other:
        await other.fetch("SELECT FROM jobs WHERE id = $1 FOR UPDATE", job)
        claiming = asyncio.create_task(claims.claim(model, Priority.NORMAL))
        assert (await claims.take(model, Priority.NORMAL, [None])) == [Empty.HELD]
    claimed = await claiming
    assert claimed is not None
    assert claimed.row.id == job
    assert await claims.claim(model, Priority.NORMAL) is None


async def test_of_jobs_that_may_have_killed_the_server_one_runs_at_a_time(
    database: Database, store: Store, tenant: UUID
) -> None:
    await store.save_models([(Model("echo", "1", False, 0, 1, [], []), True)])
    suspects = sorted([await submit(database, tenant) for _ in range(3)])
    await database.fetch("UPDATE jobs SET interruptions = $1", MAX_INTERRUPTIONS)
    other = await submit(database, tenant)
    await database.fetch("UPDATE jobs SET interruptions = $1 WHERE id = $2", MAX_INTERRUPTIONS - 1, other)
    claimed = {job.row.id: job for job in await take(database, 4)}
    assert claimed.keys() == {suspects[0], other}
    for suspect in suspects[1:]:
        state = await get(database, suspect)
        assert (state.status, state.attempt, state.claim) == (Status.QUEUED, 0, 0)
        assert state.ring_at is not None
        assert timedelta(0) < state.ring_at - state.now <= timedelta(seconds=1)
    await make_due(database, suspects[1])
    assert len((await store.ring_due(10)).rung) == 1
    assert await take(database, worker="another") == []
    await store.end_jobs([new_end(claimed[suspects[0]])])
    for suspect in suspects[1:]:
        await make_due(database, suspect)
    assert len((await store.ring_due(10)).rung) == 2
    assert [job.row.id for job in await take(database, 2, worker="another")] == [suspects[1]]


async def test_two_claims_at_once_do_not_run_two_of_them(database: Database, store: Store, tenant: UUID) -> None:
    suspects = sorted([await submit(database, tenant, model=model) for model in ("echo", "other")])
    await database.fetch("UPDATE jobs SET interruptions = $1", MAX_INTERRUPTIONS)
    own = "normal", 1, NONE, list[UUID](), list[int](), "first", LEASE, MAX_INTERRUPTIONS, NONE
    async with database.transaction() as first:
        found = await first.fetch(QUERIES["claim_jobs"], "echo", *own)
        assert [record["id"] for record in found] == [suspects[0]]
        second = asyncio.create_task(store.claim_jobs("other", Priority.NORMAL, 1, NOBODY, {}, "second", LEASE))
        await until_blocked(database)
    assert await second == ([], True)
    assert await take(database, model="other") == []  # put off
    assert (await get(database, suspects[1])).ring_at is not None


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
    renewed, untouched = await get(database, held.row.id), await get(database, again.row.id)
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
        claimed = await take(database, len(jobs))
        assert len(claimed) == len(jobs)
        held = [(job.row.id, job.claim) for job in reversed(claimed)]
        backs = [new_requeue(job, given_back=True) for job in claimed]
        outcomes = await asyncio.gather(
            *(store.renew_leases(held, LEASE) for _ in range(3)), store.requeue_jobs(backs), return_exceptions=True
        )
        assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
        await ring(database)
