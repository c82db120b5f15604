"""A wake-up claims the job of the tenant whose turn it is."""

import asyncio
from collections import Counter
from uuid import UUID

import pytest

from common import ids
from common.job_states import Priority
from common.jobs.job import JobToRun
from common.jobs.submit import submit_jobs
from common.postgres.database import Database
from services.dispatcher.claims.claims import Claims
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.claims.store import LimitStore
from services.dispatcher.models.served_model import ServedModel
from tests.integration.jobs import LEASE, add_tenant, new_job, submit, take

MANY = 12  # jobs of a tenant


@pytest.fixture
async def tenants(database: Database) -> list[UUID]:
    """Three tenants in the order of their turns."""
    return await add_tenants(database, 3)


async def add_tenants(database: Database, number: int) -> list[UUID]:
    return sorted([await add_tenant(database, f"tenant {each}") for each in range(number)])


def count(jobs: list[JobToRun]) -> Counter[UUID]:
    return Counter(job.tenant_id for job in jobs)


async def test_a_single_job_does_not_wait_behind_many_of_another_tenant(
    database: Database, tenants: list[UUID]
) -> None:
    flooding, other, _ = tenants
    first = min([await submit(database, flooding) for _ in range(MANY)])
    single = await submit(database, other)
    assert [job.id for job in await take(database, 2)] == [first, single]


async def test_the_first_job_of_each_tenant_comes_before_any_second(database: Database, tenants: list[UUID]) -> None:
    for tenant in tenants:
        for _ in range(MANY):
            await submit(database, tenant)
    jobs = await take(database, 8)
    assert [job.tenant_id for job in jobs] == [*tenants, *tenants, *tenants[:2]]
    for tenant in tenants:
        own = [job.id for job in jobs if job.tenant_id == tenant]
        assert own == sorted(own)


async def test_the_tenant_that_runs_fewer_jobs_goes_first(database: Database, tenants: list[UUID]) -> None:
    for tenant in tenants:
        for _ in range(MANY):
            await submit(database, tenant)
    a, b, c = tenants
    assert count(await take(database, 5, running={a: 3, b: 1})) == {c: 3, b: 2}


@pytest.mark.parametrize("alone", [True, False])
async def test_tenants_that_run_equally_many_jobs_take_turns(
    database: Database, tenants: list[UUID], alone: bool
) -> None:
    """Jobs are claimed one by one, or four at a time."""
    for tenant in tenants:
        for _ in range(MANY):
            await submit(database, tenant)
    limits = RunLimits(LimitStore(database), list)
    model, claims = ServedModel("echo", asyncio.Event()), Claims(database, limits, worker="w", lease=LEASE)
    served: list[UUID] = []
    while len(served) < 12:
        found = await asyncio.gather(*(claims.claim(model, Priority.NORMAL) for _ in range(1 if alone else 4)))
        jobs = [job for job in found if job is not None]
        served += [job.tenant_id for job in jobs]
        for job in jobs:
            model.turns.note_end(job.tenant_id)
    assert served == tenants * 4
    assert not model.turns.running


async def test_no_tenant_is_left_out_if_there_are_more_than_a_claim_examines(database: Database) -> None:
    tenants = await add_tenants(database, 40)
    for tenant in (*tenants, *tenants):
        await submit(database, tenant)
    served: list[UUID] = []
    last = tenants[7]
    while jobs := await take(database, 3, last_tenant=last):
        served += [job.tenant_id for job in jobs]
        last = served[-1]
    assert served == [*tenants[8:], *tenants[:8]] * 2


async def test_expired_jobs_of_many_tenants_do_not_hide_the_others(database: Database) -> None:
    tenants = await add_tenants(database, 20)
    for tenant in tenants[:-1]:
        await submit(database, tenant, expires_in=100.0)
    await submit(database, tenants[-1])
    await database.fetch("UPDATE jobs SET expires_at = now() WHERE expires_at IS NOT NULL")
    assert count(await take(database)) == {tenants[-1]: 1}


async def test_an_older_job_that_is_committed_later_comes_next(database: Database, tenants: list[UUID]) -> None:
    """Such as a retry, a scheduled job or a job of a slow gateway."""
    oldest, *others = sorted(ids.new() for _ in range(3))
    late = new_job(tenants[0], id=oldest)
    for each in others:
        await submit(database, tenants[0], id=each)
    assert [job.id for job in await take(database)] == others[:1]
    await submit_jobs(database, [late])
    assert [job.id for job in await take(database)] == [late.id]
