"""Each end of a job is counted once, in its tenant's usage of its model."""

import asyncio
from datetime import date
from typing import Any
from uuid import UUID

import pytest
from prometheus_client import REGISTRY

from common import ids
from common.jobs import Status
from common.postgres.database import Database
from services.dispatcher.maintenance import usage
from services.dispatcher.maintenance.usage_store import UsageStore
from services.gateway.jobs.retry import RETRYABLE
from services.gateway.jobs.transition_store import TransitionStore
from tests.integration.jobs import PACKED, add_tenant, claim, new_end, new_requeue, submit, take
from tests.integration.stores import Stores
from tests.integration.waiting import until

OUTPUTS = b'[{"name": "y"}]'
USED = "SELECT model, succeeded, failed, bytes_in, bytes_out, inference_seconds FROM usage WHERE tenant_id = $1"


@pytest.fixture
def store(database: Database) -> UsageStore:
    return UsageStore(database)


async def end(database: Database, job: UUID, status: Status = Status.SUCCEEDED) -> None:
    succeeded = status is Status.SUCCEEDED
    values: dict[str, Any] = {"inference_ms": 250.0, "outputs": OUTPUTS} if succeeded else {}
    await Stores(database).results.end_jobs([new_end(await claim(database, job), status, **values)])


async def list_used(database: Database, tenant: UUID) -> list[tuple[object, ...]]:
    return [tuple(record.values()) for record in await database.fetch(f"{USED} ORDER BY model", tenant)]


async def test_usage_is_summed_by_tenant_day_and_model(database: Database, store: UsageStore, tenant: UUID) -> None:
    other = await add_tenant(database, "other")
    for model in ("echo", "echo", "small"):
        await end(database, await submit(database, tenant, model=model))
    await end(database, await submit(database, tenant), Status.FAILED)
    await end(database, await submit(database, other))
    assert sum(each.entries for each in await store.roll_up(100)) == 5
    assert await store.roll_up(100) == []
    size, out = len(PACKED), len(OUTPUTS)
    assert await list_used(database, tenant) == [
        ("echo", 2, 1, 3 * size, 2 * out, 0.5),
        ("small", 1, 0, size, out, 0.25),
    ]
    assert await list_used(database, other) == [("echo", 1, 0, size, out, 0.25)]
    (today,) = await database.fetch("SELECT DISTINCT day, (now() AT TIME ZONE 'UTC')::date AS today FROM usage")
    assert isinstance(today["day"], date)
    assert today["day"] == today["today"]


async def test_attempts_are_not_counted_but_each_end_is(database: Database, store: UsageStore, tenant: UUID) -> None:
    stores = Stores(database)
    job = await submit(database, tenant)
    await stores.results.requeue_jobs([new_requeue(await claim(database, job))])
    await end(database, job, Status.FAILED)
    await TransitionStore(database).retry_jobs(tenant, [job], RETRYABLE, None)
    await end(database, job)
    await store.roll_up(100)
    assert [used[:3] for used in await list_used(database, tenant)] == [("echo", 1, 1)]


async def test_a_late_end_of_a_lost_claim_is_not_counted(database: Database, store: UsageStore, tenant: UUID) -> None:
    job = await claim(database, await submit(database, tenant))
    for _ in range(2):
        await Stores(database).results.end_jobs([new_end(job)])
    await store.roll_up(100)
    assert [used[:3] for used in await list_used(database, tenant)] == [("echo", 1, 0)]


async def test_concurrent_roll_ups_count_each_end_once(database: Database, store: UsageStore, tenant: UUID) -> None:
    jobs = 40
    for _ in range(jobs):
        await submit(database, tenant)
    for job in await take(database, jobs):
        await Stores(database).results.end_jobs([new_end(job)])
    rolled = await asyncio.gather(*(store.roll_up(7) for _ in range(jobs)))
    assert sum(each.entries for sums in rolled for each in sums) == jobs
    assert [used[:2] for used in await list_used(database, tenant)] == [("echo", jobs)]


async def test_a_job_that_is_removed_at_once_is_counted(database: Database, store: UsageStore, tenant: UUID) -> None:
    await end(database, await submit(database, tenant))
    await database.fetch("DELETE FROM jobs")
    await store.roll_up(100)
    assert [used[:2] for used in await list_used(database, tenant)] == [("echo", 1)]


@pytest.mark.parametrize("by_tenant", [False, True])
async def test_metrics_by_tenant_are_counted_if_turned_on(
    database: Database, store: UsageStore, tenant: UUID, by_tenant: bool
) -> None:
    await Stores(database).results.end_jobs([new_end(await claim(database, await submit(database, tenant)))])
    await end(database, await submit(database, tenant), Status.FAILED)
    labels = {"tenant": ids.encode(ids.Kind.TENANT, tenant), "model": "echo", "status": "failed"}

    async def is_rolled_up() -> bool:
        return bool(await list_used(database, tenant))

    running = asyncio.create_task(usage.run(store, by_tenant=by_tenant))
    try:
        await until(is_rolled_up, "the usage is added up")
        expected = 1.0 if by_tenant else None
        await until(
            lambda: REGISTRY.get_sample_value("charonia_tenant_jobs_total", labels) == expected, "it is counted"
        )
    finally:
        running.cancel()
