"""The jobs of a tenant that keep stopping Triton are suspects from the start, and begin ever more rarely."""

from uuid import UUID

import pytest

from common.job_states import Failure, Status
from common.jobs.end import end_jobs
from common.postgres.database import Database
from services.dispatcher.failures.retry_policy import (
    MAX_INTERRUPTIONS,
    PROBATION_SECONDS,
    Attempted,
    Interrupted,
    Outcome,
)
from tests.integration.jobs import TRACEPARENT, add_tenant, claim, look, new_end, promote_suspect, submit, take
from tests.integration.stores import Stores
from tests.integration.world import World

CRASHED = """
UPDATE jobs
SET status = $1, attempt = 1, interruptions = 4, error_code = 'triton_unavailable',
    finished_at = now() - make_interval(secs => $2::double precision), generation = current_generation()
WHERE id = $3
"""
PASS_TIME = """
UPDATE jobs SET finished_at = finished_at - make_interval(secs => $1::double precision) WHERE status = 'failed'
"""
WINDOW = 600.0  # seconds
AWAY = Failure("triton_unavailable", "Triton is away", True)


async def crash(
    database: Database, tenant: UUID, count: int = 3, *, status: str = "failed", ago: float = 0.0, model: str = "echo"
) -> None:
    """Submit jobs that stopped Triton and ended so many seconds ago."""
    for _ in range(count):
        await database.fetch(CRASHED, status, ago, await submit(database, tenant, model=model))


async def read_tenants(database: Database) -> set[UUID]:
    """Return the tenants of which no fresh job of the model starts."""
    return {*(await Stores(database).limits.list_limits()).on_probation.get("echo", ())}


async def pass_time(database: Database, seconds: float) -> None:
    await database.fetch(PASS_TIME, seconds)


@pytest.fixture
async def other(database: Database) -> UUID:
    return await add_tenant(database, "other")


async def test_three_crashes_within_ten_minutes_put_a_tenant_on_probation(
    database: Database, tenant: UUID, other: UUID
) -> None:
    await crash(database, tenant, 2)
    await crash(database, tenant, status="succeeded", ago=1.0)  # jobs of others stopped Triton beside them
    await crash(database, tenant, model="other")
    await crash(database, other, ago=WINDOW + 1)
    assert await read_tenants(database) == set()
    await crash(database, tenant, 1, ago=WINDOW - 10)
    assert await read_tenants(database) == {tenant}
    await pass_time(database, 20)
    assert await read_tenants(database) == set()


async def test_a_job_that_runs_again_and_again_counts_before_its_end(database: Database, tenant: UUID) -> None:
    jobs = [await submit(database, tenant) for _ in range(3)]
    await database.fetch(
        "UPDATE jobs SET attempt = 1, interruptions = 4, probation = 60, scheduled_at = now(), started_at = now()"
    )
    assert len(jobs) == 3
    assert await read_tenants(database) == {tenant}


async def test_canceled_suspects_are_evidence(database: Database, tenant: UUID, other: UUID) -> None:
    await crash(database, tenant, status="canceled")
    await database.fetch("UPDATE jobs SET attempt = 0, interruptions = 3")
    await crash(database, other, status="canceled")
    await database.fetch("UPDATE jobs SET interruptions = 2 WHERE tenant_id = $1", other)
    assert await read_tenants(database) == {tenant}


async def test_a_success_after_the_last_crash_ends_the_probation(database: Database, tenant: UUID, other: UUID) -> None:
    await crash(database, tenant, 3, ago=5.0)
    await crash(database, tenant, 1, status="succeeded", ago=6.0)
    await crash(database, tenant, 1, status="succeeded", ago=4.0, model="other")
    await crash(database, other, 1, status="succeeded", ago=4.0)
    assert await read_tenants(database) == {tenant}
    await crash(database, tenant, 1, status="succeeded", ago=4.0)
    assert await read_tenants(database) == set()
    await crash(database, tenant, 1, ago=3.0)
    assert await read_tenants(database) == {tenant}


async def run(database: Database, tenant: UUID, outcomes: list[Outcome]) -> list[tuple[Status, int]]:
    """Run three jobs with one attempt, each through these outcomes. Return their states and interruptions."""
    world, jobs = World(database, tenant), [await submit(database, tenant, max_attempts=1) for _ in range(3)]
    for outcome in outcomes:
        for job in jobs:
            attempt = await claim(database, job)
            await world.recorder.record_failure(attempt, outcome, attempt.time_after(1.0), TRACEPARENT)
    states = [await look(database, job) for job in jobs]
    return [(state.status, state.interruptions) for state in states]


async def test_crashes_that_fail_jobs_for_good_put_their_tenant_on_probation(database: Database, tenant: UUID) -> None:
    crashes: list[Outcome] = [Interrupted(AWAY)] * (MAX_INTERRUPTIONS + 1)
    assert await run(database, tenant, crashes) == [(Status.FAILED, MAX_INTERRUPTIONS + 1)] * 3
    assert await read_tenants(database) == {tenant}


async def test_crashes_that_another_tenant_may_have_caused_are_no_evidence(database: Database, tenant: UUID) -> None:
    crashes: list[Outcome] = [*[Interrupted(AWAY)] * MAX_INTERRUPTIONS, Interrupted(AWAY, doubtful=True)]
    assert await run(database, tenant, crashes) == [(Status.QUEUED, MAX_INTERRUPTIONS + 1)] * 3
    assert await read_tenants(database) == set()
    for job in await database.fetch("SELECT id FROM jobs"):
        await claim(database, job["id"])
        await database.fetch("UPDATE jobs SET probation = NULL")  # so that the next may run beside it
    assert await read_tenants(database) == set()


async def test_jobs_that_fail_by_themselves_are_no_evidence(database: Database, tenant: UUID) -> None:
    doubtful: list[Outcome] = [Interrupted(AWAY, doubtful=True)] * (MAX_INTERRUPTIONS + 1)
    assert await run(database, tenant, [*doubtful, Attempted(AWAY)]) == [(Status.FAILED, 0)] * 3
    assert await read_tenants(database) == set()


async def test_only_suspects_of_a_tenant_on_probation_are_claimed(
    database: Database, tenant: UUID, other: UUID
) -> None:
    await crash(database, tenant)
    fresh, suspect, innocent = [await submit(database, each) for each in (tenant, tenant, other)]
    await database.fetch("UPDATE jobs SET probation = 30 WHERE id = $1", suspect)
    claimed = await take(database, 5, on_probation=await read_tenants(database))
    assert {job.id for job in claimed} == {suspect, innocent}
    assert (await look(database, fresh)).status is Status.QUEUED


async def test_waiting_jobs_become_suspects_and_run_one_at_a_time(
    database: Database, tenant: UUID, other: UUID
) -> None:
    await crash(database, tenant, ago=20.0)
    waiting = [await submit(database, tenant) for _ in range(3)]
    innocent = await submit(database, other)
    (wake_up,) = await promote_suspect(database)
    assert wake_up.routing_key == "job.normal.echo"
    found = await database.fetch("SELECT id, interruptions, probation FROM jobs WHERE probation IS NOT NULL")
    assert {tuple(each) for each in found} == {(job, MAX_INTERRUPTIONS, PROBATION_SECONDS) for job in waiting}
    claimed = await take(database, 5, on_probation=await read_tenants(database))
    assert len(claimed) == 2
    assert innocent in {job.id for job in claimed}
    (suspect,) = [job for job in claimed if job.tenant_id == tenant]
    assert await promote_suspect(database) == []
    await end_jobs(database, [new_end(suspect)])
    assert len(await promote_suspect(database)) == 1


@pytest.mark.parametrize(("crashes", "seconds"), [(3, 15), (4, 30), (5, 60), (40, 60)])
async def test_after_each_crash_suspects_wait_twice_as_long(
    database: Database, tenant: UUID, other: UUID, crashes: int, seconds: float
) -> None:
    await crash(database, tenant, crashes)
    await submit(database, tenant)
    await pass_time(database, seconds - 5)
    assert await promote_suspect(database) == []
    await pass_time(database, 10)
    assert len(await promote_suspect(database)) == 1
