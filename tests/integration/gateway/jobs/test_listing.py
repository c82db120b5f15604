"""Lists of jobs: newest first, by page and filter."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from common.job_states import Status
from common.jobs.end import end_jobs
from common.postgres.database import Database
from services.gateway.http.pagination import Cursor
from services.gateway.jobs.store import JobFilter, JobStore
from tests.integration.jobs import add_tenant, claim, look, new_end, submit
from tests.integration.world import World

STATES = tuple(Status)


@pytest.fixture
def world(database: Database, tenant: UUID) -> World:
    return World(database, tenant)


@pytest.fixture
def store(database: Database) -> JobStore:
    return JobStore(database)


async def bring(world: World, status: Status, model: str = "echo") -> UUID:
    """Submit a job, and bring it to a status."""
    job = await submit(world.database, world.tenant, model=model, max_attempts=1)
    if status in (Status.QUEUED, Status.CANCELED):
        if status is Status.CANCELED:
            await world.cancel(job)
        return job
    if status is Status.EXPIRED:
        await world.database.fetch("UPDATE jobs SET expires_at = now() WHERE id = $1", job)
        await world.sweep()
        return job
    claimed = await claim(world.database, job)
    if status is Status.CANCELING:
        await world.cancel(job)
    elif status is not Status.PROCESSING:
        await end_jobs(world.database, [new_end(claimed, status)])
    return job


async def find(store: JobStore, tenant: UUID, filters: JobFilter, limit: int = 100) -> list[UUID]:
    return [row.id for row in await store.list_jobs(tenant, filters, None, limit)]


async def test_every_status_is_listed_and_filtered(world: World, store: JobStore) -> None:
    jobs = {status: await bring(world, status) for status in STATES}
    assert {status: (await look(world.database, job)).status for status, job in jobs.items()} == {
        status: status for status in STATES
    }
    assert await find(store, world.tenant, JobFilter()) == [jobs[status] for status in reversed(STATES)]
    for status, job in jobs.items():
        assert await find(store, world.tenant, JobFilter(status=status)) == [job]
        assert await find(store, world.tenant, JobFilter(status=status, model="echo")) == [job]
        assert await find(store, world.tenant, JobFilter(status=status, model="other")) == []


async def test_filters_combine(world: World, store: JobStore) -> None:
    old = [await bring(world, status, model) for status in STATES for model in ("echo", "other")]
    await world.pass_time(3600.0)
    new = {(status, model): await bring(world, status, model) for status in STATES for model in ("echo", "other")}
    since = (await look(world.database, new[Status.QUEUED, "echo"])).now - timedelta(minutes=30)
    assert set(await find(store, world.tenant, JobFilter(created_before=since))) == set(old)
    assert set(await find(store, world.tenant, JobFilter(created_after=since))) == set(new.values())
    for (status, model), job in new.items():
        filters = JobFilter(status=status, model=model, created_after=since)
        assert await find(store, world.tenant, filters) == [job]
    assert len(await find(store, world.tenant, JobFilter(model="other", created_before=since))) == len(STATES)


async def test_a_job_of_the_given_time_is_after_it(world: World, store: JobStore) -> None:
    await bring(world, Status.QUEUED)
    (row,) = await store.list_jobs(world.tenant, JobFilter(), None, 10)
    assert await find(store, world.tenant, JobFilter(created_after=row.created_at)) == [row.id]
    assert await find(store, world.tenant, JobFilter(created_before=row.created_at)) == []
    later = row.created_at + timedelta(microseconds=1)
    assert await find(store, world.tenant, JobFilter(created_after=later)) == []
    assert await find(store, world.tenant, JobFilter(created_before=later, created_after=row.created_at)) == [row.id]


async def test_another_tenants_jobs_are_not_listed(world: World, store: JobStore) -> None:
    stranger = await add_tenant(world.database, "stranger")
    for status in STATES:
        await bring(world, status)
    assert await find(store, stranger, JobFilter()) == []
    assert await find(store, stranger, JobFilter(model="echo")) == []


@pytest.mark.parametrize("filters", [JobFilter(), JobFilter(model="echo")])
async def test_pages_have_no_gaps_while_jobs_are_added_and_end(
    world: World, store: JobStore, filters: JobFilter
) -> None:
    """Even if many were created at the same time, as by one statement."""
    there = {await bring(world, status) for status in STATES for _ in range(3)}
    one_moment: datetime = (await look(world.database, next(iter(there)))).run_at
    await world.database.fetch("UPDATE jobs SET created_at = $1 WHERE id = ANY($2)", one_moment, list(there)[::2])
    found: list[UUID] = []
    behind = None
    while rows := await store.list_jobs(world.tenant, filters, behind, 2):
        assert len(rows) <= 2
        found += [row.id for row in rows]
        behind = Cursor(rows[-1].created_at, rows[-1].id)
        await bring(world, Status.QUEUED)
        for row in await store.list_jobs(world.tenant, JobFilter(status=Status.PROCESSING), None, 1):
            await world.cancel(row.id)
    assert sorted(found) == sorted(there)
