"""A claim gives a job to one dispatcher, for the length of its lease."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common import ids
from common.job_states import Priority, Status
from common.jobs.claim import Claim, claim_jobs
from common.jobs.end import end_jobs
from common.jobs.job import ClaimedJob
from common.jobs.promote import promote_jobs
from common.jobs.renew import HeldClaim, renew_leases
from common.jobs.requeue import requeue_jobs
from common.jobs.rescue import find_overdue
from common.postgres.database import Database
from common.rabbitmq.messages import QueuedJob
from services.dispatcher.claims.claims import RETRY_SECONDS, Claims
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.triton.model_version import ModelVersion
from tests.integration.jobs import (
    LEASE,
    PACKED,
    QUEUE,
    add_tenant,
    claim,
    claim_next,
    lapse,
    make_claimable,
    new_end,
    new_requeue,
    submit,
    take,
)
from tests.integration.jobs import look as get
from tests.integration.stores import Stores

RENEWED = HeldClaim(renewed=True, canceling=False)
SOON = 10.0  # seconds: less than the deadline of a statement


@pytest.fixture
def stores(database: Database) -> Stores:
    return Stores(database)


async def test_a_claim_takes_a_lease_and_raises_claim_and_attempt(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    job = await submit(database, tenant)
    (claimed,) = await take(database, worker="worker-1", lease=30.0)
    assert (claimed.status, claimed.attempt, claimed.claim) == (Status.PROCESSING, 1, 1)
    assert claimed.tensors == PACKED
    state = await get(database, job)
    assert (state.status, state.attempt, state.claim, state.worker) == (Status.PROCESSING, 1, 1, "worker-1")
    assert state.lease_until is not None
    assert timedelta(seconds=25) < state.lease_until - state.now <= timedelta(seconds=30)


async def test_a_claim_takes_jobs_of_its_model_and_class_only(database: Database, tenant: UUID) -> None:
    wanted = await submit(database, tenant)
    await submit(database, tenant, model="other")
    await submit(database, tenant, priority=Priority.HIGH)
    assert [job.id for job in await take(database, 3)] == [wanted]


async def test_only_due_and_unexpired_jobs_are_claimed(database: Database, stores: Stores, tenant: UUID) -> None:
    due = await submit(database, tenant)
    await submit(database, tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    expired = await submit(database, tenant, expires_in=100.0)
    await database.fetch("UPDATE jobs SET expires_at = now() - interval '1 ms' WHERE id = $1", expired)
    waiting = await submit(database, tenant, expires_in=100.0)
    await claim(database, await submit(database, tenant))
    ended = await claim(database, await submit(database, tenant))
    await end_jobs(database, [new_end(ended)])
    await submit(database, tenant, model="other")
    await submit(database, tenant, priority=Priority.HIGH)
    assert {job.id for job in await take(database, 9)} == {due, waiting}
    assert await take(database, 9) == []


async def test_an_offered_job_is_claimed_only_if_it_may_start(database: Database, tenant: UUID) -> None:
    """Messages name jobs, and much may have happened to them since."""
    wanted = await submit(database, tenant)
    scheduled = await submit(database, tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    expired = await submit(database, tenant, expires_in=100.0)
    await database.fetch("UPDATE jobs SET expires_at = now() - interval '1 ms' WHERE id = $1", expired)
    other_model, urgent = (
        await submit(database, tenant, model="other"),
        await submit(database, tenant, priority=Priority.HIGH),
    )
    running = (await claim(database, await submit(database, tenant))).id
    proven = await submit(database, on_probation := await add_tenant(database, "on probation"))
    suspect = await submit(database, on_probation)
    await database.fetch("UPDATE jobs SET interruptions = 1, probation = 5 WHERE id = $1", suspect)
    turn = Claim(**QUEUE, count=9, worker="w", lease=LEASE, on_probation=[on_probation])
    offered = [scheduled, expired, other_model, urgent, running, proven, ids.new(), wanted, suspect]
    found = await claim_jobs(database, turn, offered)
    assert ([job.id for job in found.jobs], found.waiting, found.contended) == ([wanted, suspect], (), False)


async def test_any_wake_up_may_claim_an_announced_job(database: Database, stores: Stores, tenant: UUID) -> None:
    """A job whose own wake-up claimed another one is claimed by the next wake-up."""
    await stores.models.save_models([(ModelVersion("echo", "1", False, 0, 1, [], []), True)])
    again = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(again)])
    own = await submit(database, tenant)
    assert [job.id for job in await take(database)] == [own]
    assert await take(database) == []
    assert len(await promote_jobs(database, 10)) == 1
    assert [job.id for job in await take(database)] == [again.id]


async def test_two_dispatchers_never_share_a_job(database: Database, tenant: UUID) -> None:
    jobs = [await submit(database, tenant) for _ in range(40)]
    counts, claimed = [5] * 8, list[ClaimedJob]()
    while len(claimed) < len(jobs):  # the next search claims what was locked in this one
        both = await asyncio.gather(*(take(database, count, worker=f"w{count}") for count in counts))
        claimed += [job for batch in both for job in batch]
    assert sorted(job.id for job in claimed) == sorted(jobs)
    assert {job.claim for job in claimed} == {1}


async def test_a_job_that_another_claim_holds_is_skipped(database: Database, tenant: UUID) -> None:
    held, free = sorted([await submit(database, tenant) for _ in range(2)])

    async def look(count: int) -> tuple[list[UUID], bool]:
        found = await claim_next(database, count, worker="second")
        return [job.id for job in found.jobs], found.contended

    async with database.transaction() as first:
        found = await claim_next(first, worker="first")
        assert [job.id for job in found.jobs] == [held]
        assert await look(2) == ([free], True)
    assert await look(2) == ([], False)
    state = await get(database, held)
    assert (state.worker, state.attempt, state.claim) == ("first", 1, 1)


async def test_a_wake_up_waits_for_a_job_that_another_transaction_holds(database: Database, tenant: UUID) -> None:
    job = await submit(database, tenant)
    limits = RunLimits(Stores(database).limits, list)
    model, claims = ServedModel("echo", asyncio.Event()), Claims(database, limits, worker="w", lease=LEASE)
    async with database.transaction() as other:
        await other.fetch("SELECT FROM jobs WHERE id = $1 FOR UPDATE", job)
        claiming = asyncio.create_task(claims.claim(model, Priority.NORMAL))
        assert not (await asyncio.wait([claiming], timeout=5 * RETRY_SECONDS))[0]
    claimed = await claiming
    assert claimed is not None
    assert claimed.id == job
    assert await claims.claim(model, Priority.NORMAL) is None


async def test_a_wake_up_whose_job_is_locked_starts_another_one(database: Database, tenant: UUID) -> None:
    limits = RunLimits(Stores(database).limits, list)
    model, claims = ServedModel("echo", asyncio.Event()), Claims(database, limits, worker="w", lease=LEASE)
    model.available.set()
    assert await claims.claim(model, Priority.NORMAL) is None  # from now on, no jobs compete
    locked, free = [await submit(database, tenant) for _ in range(2)]
    claims.note_announced(model, Priority.NORMAL, [QueuedJob(tenant, locked)])
    async with database.transaction() as other:
        await other.fetch("SELECT FROM jobs WHERE id = $1 FOR UPDATE", locked)
        claimed = await claims.claim(model, Priority.NORMAL)
    assert claimed is not None
    assert claimed.id == free


async def test_a_claimed_job_knows_whether_its_start_is_wanted(
    database: Database, stores: Stores, tenant: UUID
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


async def test_a_lease_is_renewed_only_under_its_own_claim(database: Database, stores: Stores, tenant: UUID) -> None:
    held = await claim(database, await submit(database, tenant))
    lost = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(lost)])
    again = await claim(database, lost.id)
    ended = await claim(database, await submit(database, tenant))
    await end_jobs(database, [new_end(ended)])
    claims = [(job.id, job.claim) for job in (held, lost, ended)]
    assert await renew_leases(database, claims, 500.0) == {claims[0]: RENEWED}
    renewed, untouched = await get(database, held.id), await get(database, again.id)
    assert renewed.lease_until is not None
    assert untouched.lease_until is not None
    assert renewed.lease_until - renewed.now > timedelta(seconds=450)
    assert untouched.lease_until - untouched.now <= timedelta(seconds=LEASE)


async def test_a_lapsed_lease_can_be_renewed_until_the_job_is_reclaimed(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    job = await claim(database, await submit(database, tenant))
    await lapse(database, job.id)
    claim_key = job.id, job.claim
    assert await renew_leases(database, [claim_key], LEASE) == {claim_key: RENEWED}
    assert await find_overdue(database, 0.0, 10) == []


async def test_of_two_claims_of_one_job_only_the_newer_one_holds(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    """One dispatcher may have both: it claims a job again that it has not missed yet."""
    old = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(old)])
    new = await claim(database, old.id)
    claims = [(job.id, job.claim) for job in (old, new)]
    assert await renew_leases(database, claims, LEASE) == {claims[1]: RENEWED}


async def test_a_locked_job_keeps_no_other_lease_from_being_renewed(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    for _ in range(2):
        await submit(database, tenant)
    locked, free = [(job.id, job.claim) for job in await take(database, 2)]
    async with database.transaction() as other, asyncio.timeout(SOON):
        await other.execute("SELECT FROM jobs WHERE id = $1 FOR UPDATE", locked[0])
        held = await renew_leases(database, [locked, free], 500.0)
        assert held == {locked: HeldClaim(renewed=False, canceling=False), free: RENEWED}
    for job, seconds in ((locked[0], LEASE), (free[0], 500.0)):
        state = await get(database, job)
        assert state.lease_until is not None
        assert seconds - 30 < (state.lease_until - state.now).total_seconds() <= seconds
    assert await renew_leases(database, [locked], LEASE) == {locked: RENEWED}


async def test_an_event_of_a_job_keeps_its_lease_from_nothing(database: Database, stores: Stores, tenant: UUID) -> None:
    """A foreign key locks the job's row until its transaction ends."""
    job = await claim(database, await submit(database, tenant))
    async with database.transaction() as other:
        await other.execute("SELECT FROM jobs WHERE id = $1 FOR KEY SHARE", job.id)
        claim_key = job.id, job.claim
        assert await renew_leases(database, [claim_key], LEASE) == {claim_key: RENEWED}


async def test_renewals_and_ends_of_the_same_jobs_do_not_deadlock(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    jobs = [await submit(database, tenant) for _ in range(30)]
    for _ in range(10):
        claimed = await take(database, len(jobs))
        assert len(claimed) == len(jobs)
        held = [(job.id, job.claim) for job in reversed(claimed)]
        backs = [new_requeue(job, given_back=True) for job in claimed]
        outcomes = await asyncio.gather(
            *(renew_leases(database, held, LEASE) for _ in range(3)),
            requeue_jobs(database, backs),
            return_exceptions=True,
        )
        assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
        await make_claimable(database)
