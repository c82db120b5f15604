"""What a tenant lists: newest first, by page and filter."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from common.database import Database
from common.jobs import Status
from services.dispatcher.store import Store as DispatcherStore
from services.gateway.cursors import Place
from services.gateway.listing import JobFilter, JobLister
from services.gateway.store import Store
from tests.integration.jobs import add_tenant, claim, look, new_end, submit
from tests.integration.world import World

STATES = tuple(Status)


@pytest.fixture
def world(database: Database, tenant: UUID) -> World:
    return World(database, tenant)


@pytest.fixture
def lister(database: Database) -> JobLister:
    return JobLister(database)


async def bring(world: World, status: Status, model: str = "echo") -> UUID:
    """A job in that state."""
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
        await DispatcherStore(world.database).end_jobs([new_end(claimed, status)])
    return job


async def find(lister: JobLister, tenant: UUID, wanted: JobFilter, limit: int = 100) -> list[UUID]:
    return [row.id for row in await lister.list(tenant, wanted, None, limit)]


async def test_every_state_is_listed_and_each_is_found_alone(world: World, lister: JobLister) -> None:
    jobs = {status: await bring(world, status) for status in STATES}
    assert {status: (await look(world.database, job)).status for status, job in jobs.items()} == {
        status: status for status in STATES
    }
    assert await find(lister, world.tenant, JobFilter()) == [jobs[status] for status in reversed(STATES)]
    for status, job in jobs.items():
        assert await find(lister, world.tenant, JobFilter(status=status)) == [job]
        assert await find(lister, world.tenant, JobFilter(status=status, model="echo")) == [job]
        assert await find(lister, world.tenant, JobFilter(status=status, model="other")) == []


async def test_filters_combine(world: World, lister: JobLister) -> None:
    old = [await bring(world, status, model) for status in STATES for model in ("echo", "other")]
    await world.pass_time(3600.0)
    new = {(status, model): await bring(world, status, model) for status in STATES for model in ("echo", "other")}
    since = (await look(world.database, new[Status.QUEUED, "echo"])).now - timedelta(minutes=30)
    assert set(await find(lister, world.tenant, JobFilter(created_before=since))) == set(old)
    assert set(await find(lister, world.tenant, JobFilter(created_after=since))) == set(new.values())
    for (status, model), job in new.items():
        wanted = JobFilter(status=status, model=model, created_after=since)
        assert await find(lister, world.tenant, wanted) == [job]
    assert len(await find(lister, world.tenant, JobFilter(model="other", created_before=since))) == len(STATES)


async def test_a_time_itself_is_after_and_not_before(world: World, lister: JobLister) -> None:
    await bring(world, Status.QUEUED)
    (row,) = await lister.list(world.tenant, JobFilter(), None, 10)
    assert await find(lister, world.tenant, JobFilter(created_after=row.created_at)) == [row.id]
    assert await find(lister, world.tenant, JobFilter(created_before=row.created_at)) == []
    later = row.created_at + timedelta(microseconds=1)
    assert await find(lister, world.tenant, JobFilter(created_after=later)) == []
    assert await find(lister, world.tenant, JobFilter(created_before=later, created_after=row.created_at)) == [row.id]


async def test_others_jobs_are_not_listed(world: World, lister: JobLister) -> None:
    stranger = await add_tenant(Store(world.database), "stranger")
    for status in STATES:
        await bring(world, status)
    assert await find(lister, stranger, JobFilter()) == []
    assert await find(lister, stranger, JobFilter(model="echo")) == []


@pytest.mark.parametrize("wanted", [JobFilter(), JobFilter(model="echo")])
async def test_pages_miss_and_double_nothing_while_jobs_are_added_and_end(
    world: World, lister: JobLister, wanted: JobFilter
) -> None:
    """Also where many were created in one moment, as those of one statement are."""
    there = {await bring(world, status) for status in STATES for _ in range(3)}
    one_moment: datetime = (await look(world.database, next(iter(there)))).run_at
    await world.database.fetch("UPDATE jobs SET created_at = $1 WHERE id = ANY($2)", one_moment, list(there)[::2])
    found: list[UUID] = []
    behind = None
    while rows := await lister.list(world.tenant, wanted, behind, 2):
        assert len(rows) <= 2
        found += [row.id for row in rows]
        behind = Place(rows[-1].created_at, rows[-1].id)
        await bring(world, Status.QUEUED)
        for row in await lister.list(world.tenant, JobFilter(status=Status.PROCESSING), None, 1):
            await world.cancel(row.id)
    assert sorted(found) == sorted(there)
