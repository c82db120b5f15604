"""Each end of a job is counted once, in its tenant's usage of its model."""

import asyncio
from datetime import date
from uuid import UUID

import pytest
from prometheus_client import REGISTRY

from common import ids
from common.job_states import Status
from common.jobs.end import end_jobs
from common.jobs.requeue import requeue_jobs
from common.jobs.retry import retry_jobs
from common.postgres.database import Database
from services.dispatcher.maintenance.usage import usage_counter
from services.dispatcher.maintenance.usage.store import roll_up
from services.gateway.jobs.actions.retry import RETRYABLE
from tests.integration.jobs import PACKED, add_tenant, claim, new_end, new_requeue, submit
from tests.integration.usage import OUTPUTS, count_all, end, list_used
from tests.integration.waiting import until, until_blocked
from tests.integration.world import World


@pytest.fixture
def world(database: Database, tenant: UUID) -> World:
    return World(database, tenant)


async def test_usage_is_summed_by_tenant_day_and_model(database: Database, tenant: UUID) -> None:
    other = await add_tenant(database, "other")
    for model in ("echo", "echo", "small"):
        await end(database, await submit(database, tenant, model=model))
    await end(database, await submit(database, tenant), Status.FAILED)
    await end(database, await submit(database, other))
    await count_all(database, 5)
    assert await roll_up(database, 100) == []
    size, out = len(PACKED), len(OUTPUTS)
    assert await list_used(database, tenant) == [
        ("echo", 2, 1, 3 * size, 2 * out, 0.5),
        ("small", 1, 0, size, out, 0.25),
    ]
    assert await list_used(database, other) == [("echo", 1, 0, size, out, 0.25)]
    (today,) = await database.fetch("SELECT DISTINCT day, (now() AT TIME ZONE 'UTC')::date AS today FROM usage")
    assert isinstance(today["day"], date)
    assert today["day"] == today["today"]


async def test_attempts_are_not_counted_but_each_end_is(database: Database, tenant: UUID) -> None:
    job = await submit(database, tenant)
    await requeue_jobs(database, [new_requeue(await claim(database, job))])
    await end(database, job, Status.FAILED)
    await count_all(database, 1)
    await retry_jobs(database, tenant, [job], RETRYABLE, None)
    await end(database, job)
    await count_all(database, 1)
    assert [used[:3] for used in await list_used(database, tenant)] == [("echo", 1, 1)]


async def test_a_job_retried_before_it_is_counted_is_counted_at_once(database: Database, tenant: UUID) -> None:
    job = await submit(database, tenant)
    await end(database, job, Status.FAILED)
    await retry_jobs(database, tenant, [job], RETRYABLE, None)
    assert await list_used(database, tenant) == [("echo", 0, 1, len(PACKED), 0, 0.0)]
    assert await roll_up(database, 100) == []
    await end(database, job)
    await count_all(database, 1)
    assert [used[:3] for used in await list_used(database, tenant)] == [("echo", 1, 1)]


async def test_a_job_of_a_dump_is_not_counted_again_by_its_retry(database: Database, tenant: UUID) -> None:
    """Its end was counted on a server with larger transaction ids."""
    job = await submit(database, tenant)
    await end(database, job, Status.FAILED)
    await count_all(database, 1)
    await database.fetch("UPDATE jobs SET ended_xid = '9000000000000' WHERE id = $1", job)
    await retry_jobs(database, tenant, [job], RETRYABLE, None)
    assert [used[:3] for used in await list_used(database, tenant)] == [("echo", 0, 1)]


async def test_a_count_waits_for_a_retry_that_counts(database: Database, tenant: UUID) -> None:
    job = await submit(database, tenant)
    await end(database, job, Status.FAILED)
    async with database.transaction() as retrying:
        await retry_jobs(retrying, tenant, [job], RETRYABLE, None)
        counting = asyncio.create_task(roll_up(database, 100))
        await until_blocked(database)
    await counting
    assert [used[:3] for used in await list_used(database, tenant)] == [("echo", 0, 1)]


async def test_a_retry_waits_for_the_count_that_may_see_the_end(database: Database, tenant: UUID) -> None:
    job = await submit(database, tenant)
    await end(database, job, Status.FAILED)
    async with database.transaction() as holder:
        await holder.execute("INSERT INTO usage VALUES ($1, current_date, 'echo', 0, 0, 0, 0, 0, 0, 0)", tenant)
        counting = asyncio.create_task(roll_up(database, 100))
        await until_blocked(database)
        retrying = asyncio.create_task(retry_jobs(database, tenant, [job], RETRYABLE, None))
        await until_blocked(database, 2)
    await asyncio.gather(counting, retrying)
    assert [used[:3] for used in await list_used(database, tenant)] == [("echo", 0, 1)]


async def test_tokens_are_counted_once_whatever_is_retried(database: Database, tenant: UUID) -> None:
    job = await submit(database, tenant)
    await requeue_jobs(database, [new_requeue(await claim(database, job))])
    claimed = await claim(database, job)
    for _ in range(2):
        await end_jobs(database, [new_end(claimed, prompt_tokens=3, completion_tokens=5, finish_reason="stop")])
    await end(database, await submit(database, tenant))  # its model tells nothing
    await count_all(database, 2)
    assert await roll_up(database, 100) == []
    (used,) = await database.fetch("SELECT prompt_tokens, completion_tokens FROM usage WHERE tenant_id = $1", tenant)
    assert tuple(used.values()) == (3, 5)


async def test_a_late_end_of_a_lost_claim_is_not_counted(database: Database, tenant: UUID) -> None:
    job = await claim(database, await submit(database, tenant))
    for _ in range(2):
        await end_jobs(database, [new_end(job)])
    await count_all(database, 1)
    assert [used[:3] for used in await list_used(database, tenant)] == [("echo", 1, 0)]


async def test_a_job_erased_before_it_is_counted_counts_without_its_outputs(world: World) -> None:
    job = await submit(world.database, world.tenant)
    await end(world.database, job)
    assert await world.erase(job)
    await count_all(world.database, 1)
    assert await list_used(world.database, world.tenant) == [("echo", 1, 0, len(PACKED), 0, 0.25)]


async def test_outputs_in_files_are_counted(database: Database, tenant: UUID) -> None:
    job = await submit(database, tenant)
    await end(database, job)
    await database.fetch("UPDATE jobs SET output_file_bytes = 1000 WHERE id = $1", job)
    await count_all(database, 1)
    assert await list_used(database, tenant) == [("echo", 1, 0, len(PACKED), len(OUTPUTS) + 1000, 0.25)]


async def test_a_canceled_and_an_expired_job_are_counted(world: World) -> None:
    await world.begin()
    canceled = await submit(world.database, world.tenant)
    await submit(world.database, world.tenant, expires_in=1.0)
    await world.cancel(canceled)
    await world.pass_time(2.0)
    await world.sweep()
    await world.recorder.drain(10)
    await count_all(world.database, 2)
    (row,) = await world.database.fetch("SELECT canceled, expired, bytes_in, bytes_out FROM usage")
    assert tuple(row.values()) == (1, 1, 2 * len(PACKED), 0)


@pytest.mark.parametrize("by_tenant", [False, True])
async def test_metrics_by_tenant_are_counted_if_turned_on(database: Database, tenant: UUID, by_tenant: bool) -> None:
    await end_jobs(database, [new_end(await claim(database, await submit(database, tenant)))])
    await end(database, await submit(database, tenant), Status.FAILED)
    labels = {"tenant": ids.encode(ids.Kind.TENANT, tenant), "model": "echo", "status": "failed"}

    async def is_rolled_up() -> bool:
        return bool(await list_used(database, tenant))

    running = asyncio.create_task(usage_counter.run(database, by_tenant=by_tenant))
    try:
        await until(is_rolled_up, "the usage is added up")
        expected = 1.0 if by_tenant else None
        await until(
            lambda: REGISTRY.get_sample_value("charonia_tenant_jobs_total", labels) == expected, "it is counted"
        )
    finally:
        running.cancel()
