"""Jobs that ask the same: who leads, who waits, and who takes a result."""

import asyncio
from operator import attrgetter
from typing import Any
from uuid import UUID

import pytest

from common import ids
from common.event_types import number_event
from common.job_states import Priority, Status
from common.jobs.cancel import lock_job
from common.jobs.end import end_jobs
from common.jobs.erase import erase_job
from common.jobs.expire import find_expired
from common.jobs.new_event import NewEvent
from common.jobs.promote import promote_jobs
from common.jobs.requeue import requeue_jobs
from common.jobs.run import erase_steps
from common.jobs.submit import submit_jobs
from common.jobs.submit_reusing import Candidate, Reused, add_reused, submit_reusing
from common.jobs.take_results import Page, TakenResult, find_groups, list_joiners, remove_twins, take_results
from common.jobs.twins import (
    FoundTwin,
    Promotion,
    find_loads,
    find_twins,
    forget_result,
    forget_results_of_run,
    is_awaited,
    lift_twins,
    promote_twins,
)
from common.postgres.database import Database
from common.reuse.key import FIRST, ReuseKey
from tests.integration.jobs import TRACEPARENT, add_tenant, look, new_end, new_job, new_requeue, take, trace

KEY = b"k" * 32
LARGE = 1000


def new(tenant: UUID, **changes: Any) -> Any:
    return new_job(tenant, **{"reuse_key": KEY, "reuse_seconds": 60.0} | changes)


async def lead(database: Database, tenant: UUID, before: UUID | None = None, **changes: Any) -> UUID:
    """Submit a job that may become the twin. Return its id."""
    job = new(tenant, **changes)
    assert job.id in await submit_reusing(database, [Candidate(job, before)])
    return UUID(str(job.id))


async def find(database: Database, tenant: UUID) -> FoundTwin:
    key = ReuseKey(tenant, KEY)
    return (await find_twins(database, [key], LARGE))[key]


async def waits(database: Database, job: UUID) -> bool:
    found = await database.fetch("SELECT scheduled_at = 'infinity' AS waits FROM live_jobs WHERE id = $1", job)
    return bool(found and found[0]["waits"])


async def succeed(database: Database, **changes: Any) -> UUID:
    """Claim the next job, and end it with a result."""
    (job,) = await take(database)
    assert job.reuse == ReuseKey(job.tenant_id, KEY)
    end = new_end(job, version="1", load_id=ids.new(), outputs=b'["result"]', **changes)
    assert await end_jobs(database, [end]) == {end.event.id}
    return job.id


def taken(job: UUID, twin: FoundTwin) -> TakenResult:
    event = NewEvent(ids.new(), "job.succeeded", number_event("job.succeeded", twin.claim), b"{}", TRACEPARENT)
    return TakenResult(job, twin.job_id, twin.claim, twin.at, event)


def reused(tenant: UUID, twin: FoundTwin, **changes: Any) -> Reused:
    event = NewEvent(ids.new(), "job.succeeded", number_event("job.succeeded", twin.claim), b"{}", TRACEPARENT)
    return Reused(new(tenant, **changes), twin.job_id, twin.claim, twin.at, event)


async def erase(database: Database, tenant: UUID, job: UUID) -> None:
    async with database.transaction() as connection:
        assert await lock_job(connection, job, tenant)
        await forget_result(connection, job)
        await erase_job(connection, job, [])


async def test_the_first_job_leads_and_the_others_wait(database: Database, tenant: UUID) -> None:
    first, second = sorted((new(tenant), new(tenant)), key=attrgetter("id"))
    other = new(tenant, reuse_key=b"o" * 32)
    added = await submit_reusing(database, [Candidate(job, None) for job in (second, other, first)])
    assert {job for job in added if added[job].leads} == {first.id, other.id}
    assert await waits(database, second.id)
    assert not await waits(database, first.id)
    assert (await find(database, tenant)).job_id == first.id
    assert {job.id for job in await take(database, 5)} == {first.id, other.id}
    assert await promote_jobs(database, 10) == []


async def test_tenants_never_meet(database: Database, tenant: UUID) -> None:
    await lead(database, tenant)
    assert not await waits(database, await lead(database, await add_tenant(database, "other")))


@pytest.mark.parametrize("candidates", [2, 5])
async def test_of_those_that_replace_a_dead_twin_at_once_one_leads(
    database: Database, tenant: UUID, candidates: int
) -> None:
    dead = await lead(database, tenant)
    await database.fetch(
        "UPDATE jobs SET status = 'canceled', finished_at = now(), generation = 1 WHERE id = $1 -- cancel_queued", dead
    )
    jobs = await asyncio.gather(*(lead(database, tenant, dead) for _ in range(candidates)))
    assert sum([await waits(database, job) for job in jobs]) == candidates - 1
    assert await waits(database, await lead(database, tenant, dead))
    assert await waits(database, await lead(database, tenant, None))


async def test_a_repeated_request_adds_no_second_job(database: Database, tenant: UUID) -> None:
    await lead(database, tenant, idempotency_key="k", fingerprint=bytes(32))
    again = new(tenant, idempotency_key="k", fingerprint=bytes(32))
    assert await submit_reusing(database, [Candidate(again, None)]) == {}
    await succeed(database)
    repeated = reused(tenant, await find(database, tenant), idempotency_key="k", fingerprint=bytes(32))
    assert await add_reused(database, [repeated]) == set()


async def test_who_waits_takes_the_result(database: Database, tenant: UUID) -> None:
    await lead(database, tenant)
    jobs = sorted([await lead(database, tenant) for _ in range(3)])  # ids of one millisecond come in any order
    maker = await succeed(database, prompt_tokens=3)
    twin = await find(database, tenant)
    assert twin.state is not None
    assert (twin.state.status, twin.outputs, twin.claim) == (Status.SUCCEEDED, b'["result"]', 1)
    joiners = await list_joiners(database, [Page(ReuseKey(tenant, KEY), 2)])
    assert [job.id for job, _ in joiners] == jobs[:2]
    assert joiners[0][0].reuse_seconds == 60.0
    ends = [taken(job, twin) for job in jobs]
    assert await take_results(database, ends) == {*jobs}
    assert await take_results(database, ends) == set()
    for job in jobs:
        state = await look(database, job)
        assert (state.status, state.attempt, state.claim, state.scheduled_at) == (Status.SUCCEEDED, 0, 1, None)
        assert await trace(database, job) == (["job.succeeded"], [b'["result"]'])
    found = await database.fetch("SELECT DISTINCT reused_from, prompt_tokens FROM jobs WHERE id = ANY($1)", jobs)
    assert [tuple(record) for record in found] == [(maker, 3)]


async def test_who_waits_no_more_takes_nothing(database: Database, tenant: UUID) -> None:
    await lead(database, tenant)
    locked, canceled = await lead(database, tenant), await lead(database, tenant)
    await succeed(database)
    twin = await find(database, tenant)
    await database.fetch(
        "UPDATE jobs SET status = 'canceled', finished_at = now(), scheduled_at = NULL, generation = 1 WHERE id = $1"
        " -- cancel_queued",
        canceled,
    )
    async with database.transaction() as connection:
        await lock_job(connection, locked, tenant)
        assert await take_results(database, [taken(locked, twin), taken(canceled, twin)]) == set()


async def test_nobody_takes_an_erased_result(database: Database, tenant: UUID) -> None:
    await lead(database, tenant)
    job = await lead(database, tenant)
    await succeed(database)
    twin = await find(database, tenant)
    await erase(database, tenant, twin.job_id)
    assert await take_results(database, [taken(job, twin)]) == set()
    assert await add_reused(database, [reused(tenant, twin, idempotency_key="k", fingerprint=bytes(32))]) == set()
    assert not await database.fetch("SELECT FROM idempotency_keys")


async def test_a_take_that_waits_for_an_erasure_takes_nothing(database: Database, tenant: UUID) -> None:
    await lead(database, tenant)
    job = await lead(database, tenant)
    await succeed(database)
    twin = await find(database, tenant)
    async with database.transaction() as connection:
        await lock_job(connection, twin.job_id, tenant)
        taking = asyncio.create_task(take_results(database, [taken(job, twin)]))
        hitting = asyncio.create_task(add_reused(database, [reused(tenant, twin)]))
        await asyncio.wait([taking, hitting], timeout=0.2)
        assert not taking.done()
        assert not hitting.done()
        await erase_job(connection, twin.job_id, [])
    assert await taking == set()
    assert await hitting == set()


async def test_a_hit_ends_at_its_submit(database: Database, tenant: UUID) -> None:
    await lead(database, tenant)
    maker = await succeed(database)
    twin = await find(database, tenant)
    hit = reused(tenant, twin, metadata=b'{"own": 1}')
    assert await add_reused(database, [hit]) == {hit.job.id}
    state = await look(database, hit.job.id)
    assert (state.status, state.attempt, state.finished_at) == (Status.SUCCEEDED, 0, twin.at)
    assert await trace(database, hit.job.id) == (["job.succeeded"], [b'["result"]'])
    (row,) = await database.fetch("SELECT reused_from, metadata, version FROM jobs WHERE id = $1", hit.job.id)
    assert tuple(row) == (maker, b'{"own": 1}', "1")
    usage = await database.fetch("SELECT sum(succeeded) AS s, sum(reused) AS r FROM ended_usage")
    assert tuple(usage[0]) == (1, 1)


async def test_the_erasure_of_a_job_that_took_a_result_forgets_it(database: Database, tenant: UUID) -> None:
    await lead(database, tenant)
    await succeed(database)
    twin = await find(database, tenant)
    await add_reused(database, [hit := reused(tenant, twin)])
    await erase(database, tenant, hit.job.id)
    state = (await find(database, tenant)).state
    assert state is not None
    assert state.forgotten_at is not None


async def test_the_erasure_of_a_run_forgets_what_its_steps_took(database: Database, tenant: UUID) -> None:
    run = ids.new()
    _, joined = await lead(database, tenant), await lead(database, tenant)
    await succeed(database)
    await take_results(database, [taken(joined, await find(database, tenant))])
    await database.fetch("UPDATE jobs SET parent = $1 WHERE id = $2", run, joined)
    await forget_results_of_run(database, ids.new())
    state = (await find(database, tenant)).state
    assert state is not None
    assert state.forgotten_at is None
    await forget_results_of_run(database, run)
    state = (await find(database, tenant)).state
    assert state is not None
    assert state.forgotten_at is not None


async def test_the_oldest_becomes_the_twin_once(database: Database, tenant: UUID) -> None:
    dead = await lead(database, tenant)
    jobs = [await lead(database, tenant) for _ in range(2)]
    promotions = [Promotion(job, dead, Priority.HIGH, 7) for job in jobs]
    assert len(await promote_twins(database, promotions[:1])) == 1
    assert await promote_twins(database, promotions[:1]) == []
    assert await promote_twins(database, promotions[1:]) == []
    (job,) = await take(database, priority=Priority.HIGH)
    assert (job.id, job.claim) == (jobs[0], 8)
    assert await waits(database, jobs[1])
    assert (await find(database, tenant)).job_id == jobs[0]


async def test_a_batch_that_waits_has_a_group_without_a_twin(database: Database, tenant: UUID) -> None:
    job, other = new(tenant), new(tenant, reuse_key=b"a" * 32)
    await submit_jobs(database, [job])
    await lead(database, tenant, reuse_key=other.reuse_key)
    await submit_jobs(database, [other])
    groups = await find_groups(database, FIRST, 10)
    assert groups == [((tenant, b"a" * 32), True), ((tenant, KEY), False)]
    assert await find_groups(database, groups[0].key, 10) == groups[1:]
    assert await find_groups(database, FIRST, 1) == groups[:1]
    assert len(await promote_twins(database, [Promotion(job.id, None, Priority.NORMAL, 0)])) == 1
    assert await find_groups(database, groups[0].key, 10) == []


async def test_a_higher_priority_lifts_a_twin_that_waits(database: Database, tenant: UUID) -> None:
    keys = [ReuseKey(tenant, KEY)]
    twin = await lead(database, tenant, priority=Priority.LOW)
    await lead(database, tenant, priority=Priority.LOW)
    assert await lift_twins(database, keys) == []
    await lead(database, tenant, priority=Priority.HIGH)
    assert len(await lift_twins(database, keys)) == 1
    assert await lift_twins(database, keys) == []
    (job,) = await take(database, priority=Priority.HIGH)
    assert job.id == twin


async def test_a_deadline_ends_a_backoff(database: Database, tenant: UUID) -> None:
    await lead(database, tenant)
    (job,) = await take(database)
    await requeue_jobs(database, [new_requeue(job, delay=60.0)])
    await lead(database, tenant, expires_in=90.0)
    assert await lift_twins(database, [ReuseKey(tenant, KEY)]) == []
    await lead(database, tenant, expires_in=30.0)
    assert len(await lift_twins(database, [ReuseKey(tenant, KEY)])) == 1
    assert len(await promote_jobs(database, 10)) == 1


async def test_a_deadline_costs_no_last_attempt(database: Database, tenant: UUID) -> None:
    await lead(database, tenant, max_attempts=2)
    (job,) = await take(database)
    await requeue_jobs(database, [new_requeue(job, delay=60.0)])
    await lead(database, tenant, expires_in=30.0)
    assert await lift_twins(database, [ReuseKey(tenant, KEY)]) == []


async def test_only_a_twin_that_others_wait_for_is_awaited(database: Database, tenant: UUID) -> None:
    key = ReuseKey(tenant, KEY)
    twin = await lead(database, tenant)
    assert not await is_awaited(database, key, twin)
    joiner = await lead(database, tenant)
    assert await is_awaited(database, key, twin)
    assert not await is_awaited(database, key, joiner)


async def test_a_job_whose_twin_has_started_does_not_expire(database: Database, tenant: UUID) -> None:
    await lead(database, tenant)
    job = await lead(database, tenant, expires_in=60.0)
    await database.fetch("UPDATE jobs SET expires_at = now() WHERE id = $1", job)
    assert [each.id for each, _ in await find_expired(database, 10)] == [job]
    await take(database)
    assert await find_expired(database, 10) == []


async def test_a_file_stays_until_the_last_job_that_shows_it_is_gone(database: Database, tenant: UUID) -> None:
    file = ids.new()
    await database.fetch(
        "INSERT INTO files (id, tenant_id, content_type, size, sha256, kept, expires_at)"
        " VALUES ($1, $2, 'a/b', 5, '', 60, now() + interval '1 hour')",
        file,
        tenant,
    )
    await lead(database, tenant)
    joined = await lead(database, tenant)
    maker = await succeed(database, files=[file])
    twin = await find(database, tenant)
    await take_results(database, [taken(joined, twin)])
    await add_reused(database, [hit := reused(tenant, twin)])

    async def owner() -> tuple[UUID | None, str]:
        (row,) = await database.fetch("SELECT job_id, status FROM files WHERE id = $1", file)
        return row["job_id"], row["status"]

    assert await owner() == (maker, "ready")
    await erase(database, tenant, maker)
    assert await owner() == (joined, "ready")
    await database.fetch("DELETE FROM jobs WHERE id = $1", joined)
    await database.fetch("UPDATE files SET expires_at = now(), job_id = NULL WHERE id = $1", file)
    assert await owner() == (hit.job.id, "ready")
    await erase(database, tenant, hit.job.id)
    assert await owner() == (None, "deleting")
    assert not await database.fetch("SELECT FROM shared_outputs")


@pytest.mark.parametrize("of_another_run", [False, True])
async def test_an_erasure_gives_no_file_to_another_step_of_the_run(
    database: Database, tenant: UUID, *, of_another_run: bool
) -> None:
    run, other, file = ids.new(), ids.new(), ids.new()
    maker = await lead(database, tenant)
    sharer = await lead(database, tenant)
    await succeed(database)
    await take_results(database, [taken(sharer, await find(database, tenant))])
    await database.fetch("UPDATE jobs SET parent = $1 WHERE id = $2", run, maker)
    await database.fetch("UPDATE jobs SET parent = $1 WHERE id = $2", other if of_another_run else run, sharer)
    await database.fetch("INSERT INTO shared_outputs (source, job_id) VALUES ($1, $2)", maker, sharer)
    await database.fetch(
        "INSERT INTO files (id, tenant_id, status, content_type, size, sha256, kept, expires_at, job_id, made_by)"
        " VALUES ($1, $2, 'ready', 'a/b', 5, '', 60, 'infinity', $3, $3)",
        file,
        tenant,
        maker,
    )
    await erase_steps(database, run)
    (row,) = await database.fetch("SELECT job_id, status FROM files WHERE id = $1", file)
    assert tuple(row) == ((sharer, "ready") if of_another_run else (None, "deleting"))


async def test_runs_that_are_erased_at_once_give_each_other_no_file(database: Database, tenant: UUID) -> None:
    runs, file = [ids.new(), ids.new()], ids.new()
    maker = await lead(database, tenant)
    sharer = await lead(database, tenant)
    await succeed(database)
    await take_results(database, [taken(sharer, await find(database, tenant))])
    for run, job in zip(runs, (maker, sharer), strict=True):
        await database.fetch("UPDATE jobs SET parent = $1 WHERE id = $2", run, job)
    await database.fetch("INSERT INTO shared_outputs (source, job_id) VALUES ($1, $2)", maker, sharer)
    await database.fetch(
        "INSERT INTO files (id, tenant_id, status, content_type, size, sha256, kept, expires_at, job_id, made_by)"
        " VALUES ($1, $2, 'ready', 'a/b', 5, '', 60, 'infinity', $3, $3)",
        file,
        tenant,
        maker,
    )
    async with database.transaction() as connection:
        await erase_steps(connection, runs[1])
        erasing = asyncio.create_task(erase_steps(database, runs[0]))
        await asyncio.wait([erasing], timeout=0.2)
        assert not erasing.done()
    await erasing
    (row,) = await database.fetch("SELECT job_id, status FROM files WHERE id = $1", file)
    assert tuple(row) == (None, "deleting")


async def test_loads_are_of_the_version_asked_for_or_the_newest_ready_one(database: Database) -> None:
    old, new_load = ids.new(), ids.new()
    await database.fetch("INSERT INTO dispatchers (worker) VALUES ('w')")
    rows = [("9", old, True), ("10", new_load, True), ("11", ids.new(), False)]
    for version, load, ready in rows:
        await database.fetch(
            "INSERT INTO served_models (name, version, worker, ready, decoupled, max_batch_size, instances, slots,"
            " inputs, outputs, load_id) VALUES ('m', $1, 'w', $3, false, 0, 1, 1, '[]', '[]', $2)",
            version,
            load,
            ready,
        )
    assert await find_loads(database, "m", None) == {("10", new_load)}
    assert await find_loads(database, "m", "9") == {("9", old)}
    assert await find_loads(database, "m", "8") is None
    await database.fetch("UPDATE served_models SET load_id = NULL WHERE version = '9'")
    assert await find_loads(database, "m", "9") == set()


async def test_a_twin_whose_job_is_gone_is_removed(database: Database, tenant: UUID) -> None:
    await lead(database, tenant)
    assert await remove_twins(database, FIRST, 10) == ((tenant, KEY), 1)
    assert (await find(database, tenant)).state is not None
    await database.fetch("DELETE FROM jobs")
    assert (await find(database, tenant)).state is None
    await remove_twins(database, FIRST, 10)
    assert await find_twins(database, [ReuseKey(tenant, KEY)], LARGE) == {}
    assert await remove_twins(database, ReuseKey(tenant, KEY), 10) is None
