"""Each end of a job is counted once, whenever its transaction commits, and a job is not removed before."""

import asyncio
import contextlib
from datetime import timedelta
from uuid import UUID

import pytest
from prometheus_client import REGISTRY

from common import ids
from common.jobs.end import end_jobs
from common.postgres.database import Database
from services.dispatcher.maintenance.retention import own_retention
from services.dispatcher.maintenance.retention.store import RetentionStore
from services.dispatcher.maintenance.usage import usage_counter
from services.dispatcher.maintenance.usage.store import roll_up
from tests.integration.forgetting import forget
from tests.integration.jobs import add_tenant, claim, new_end, submit, take
from tests.integration.transactions import OpenTransaction
from tests.integration.usage import count_all, end, list_used
from tests.integration.waiting import until, until_blocked

TERMINATE = """
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
DUMP = """
UPDATE jobs
SET ended_xid = (CASE WHEN id = $1 THEN '9000000000000' ELSE '9000000000002' END)::xid8
WHERE ended_xid IS NOT NULL
"""


async def test_concurrent_roll_ups_count_each_end_once(database: Database, tenant: UUID) -> None:
    jobs = 40
    for _ in range(jobs):
        await submit(database, tenant)
    for job in await take(database, jobs):
        await end_jobs(database, [new_end(job)])
    counted = 0

    async def is_counted() -> bool:
        nonlocal counted
        rolled = await asyncio.gather(*(roll_up(database, 7) for _ in range(4)))
        assert all(sum(each.jobs for each in sums) <= 7 for sums in rolled)
        counted += sum(each.jobs for sums in rolled for each in sums)
        return counted >= jobs

    await until(is_counted, "all ends are counted")
    assert counted == jobs
    assert [used[:2] for used in await list_used(database, tenant)] == [("echo", jobs)]


async def test_a_second_dispatcher_does_not_wait_for_the_first(database: Database, tenant: UUID) -> None:
    await end(database, await submit(database, tenant))
    await count_all(database, 1)
    await end(database, await submit(database, tenant))
    async with database.transaction() as holder:
        await holder.execute("SELECT FROM usage FOR UPDATE")
        first = asyncio.create_task(count_all(database, 1))
        await until_blocked(database)
        assert await roll_up(database, 100) == []
    await first
    assert [used[:2] for used in await list_used(database, tenant)] == [("echo", 2)]


async def test_an_end_that_commits_late_is_counted_once(database: Database, tenant: UUID) -> None:
    """Later transactions end other jobs and commit before it. A bound at the newest id would skip it."""
    late, early = await submit(database, tenant), await submit(database, tenant)
    held, job = await claim(database, late), await claim(database, early)
    async with database.transaction() as ending:
        await end_jobs(OpenTransaction(ending), [new_end(held)])
        await end_jobs(database, [new_end(job)])
        for _ in range(2):
            assert await roll_up(database, 100) == []
    await count_all(database, 2)
    for _ in range(2):
        assert await roll_up(database, 100) == []
    assert [used[:2] for used in await list_used(database, tenant)] == [("echo", 2)]


async def test_an_end_that_is_rolled_back_is_not_counted(database: Database, tenant: UUID) -> None:
    job = await claim(database, await submit(database, tenant))
    with contextlib.suppress(ZeroDivisionError):
        async with database.transaction() as ending:
            await end_jobs(OpenTransaction(ending), [new_end(job)])
            raise ZeroDivisionError
    await end_jobs(database, [new_end(job)])
    await count_all(database, 1)
    assert [used[:2] for used in await list_used(database, tenant)] == [("echo", 1)]


async def test_the_ends_of_one_transaction_are_counted_together(database: Database, tenant: UUID) -> None:
    for _ in range(5):
        await submit(database, tenant)
    await end_jobs(database, [new_end(job) for job in await take(database, 5)])
    await end(database, await submit(database, tenant))
    await count_all(database, 6, limit=2)
    assert [used[:2] for used in await list_used(database, tenant)] == [("echo", 6)]


async def test_a_job_is_not_removed_before_it_is_counted(database: Database, tenant: UUID) -> None:
    own = RetentionStore(database)
    for retain in (None, 3600.0):
        await end(database, await submit(database, tenant, retain=retain))
    await database.fetch("UPDATE jobs SET finished_at = finished_at - $1::interval", timedelta(days=2))
    assert await forget(database, counted=False) == 0
    assert await own_retention.remove_retained(own) == 0
    await count_all(database, 2)
    assert await own_retention.remove_retained(own) == 1
    assert await forget(database, counted=False) == 2
    assert await database.fetch("SELECT FROM jobs") == []


async def test_after_a_restore_into_a_server_with_smaller_ids_nothing_counts_twice(
    database: Database, tenant: UUID
) -> None:
    """One job of the dump was counted, the other was not."""
    counted, new = await submit(database, tenant), await submit(database, tenant, model="small")
    await end(database, counted)
    await count_all(database, 1)
    await end(database, new)
    await database.fetch(DUMP, counted)
    await database.fetch("UPDATE usage_progress SET counted_before = '9000000000001'")
    assert [each.model for each in await roll_up(database, 100)] == ["small"]
    assert await database.fetch("SELECT FROM jobs WHERE ended_xid IS NOT NULL") == []
    await end(database, await submit(database, tenant))
    await count_all(database, 1)
    assert [used[:2] for used in await list_used(database, tenant)] == [("echo", 2), ("small", 1)]
    assert await forget(database, counted=False) == 1


async def test_an_end_during_a_roll_up_is_counted_by_the_next(database: Database, tenant: UUID) -> None:
    """The roll-up sees it, although its transaction began later."""
    await end(database, await submit(database, tenant))
    async with database.transaction() as holder:
        await holder.execute("INSERT INTO usage VALUES ($1, current_date, 'echo', 0, 0, 0, 0, 0, 0, 0)", tenant)
        counting = asyncio.create_task(roll_up(database, 100))
        await until_blocked(database)
        await end(database, await submit(database, tenant))
    assert [each.jobs for each in await counting] == [1]
    await count_all(database, 1)
    assert [used[:2] for used in await list_used(database, tenant)] == [("echo", 2)]


async def test_metrics_count_only_what_was_committed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_counter, "INTERVAL_SECONDS", 0.05)
    tenant = await add_tenant(database, "metered")
    labels = {"tenant": ids.encode(ids.Kind.TENANT, tenant), "model": "echo", "status": "succeeded"}
    await end(database, await submit(database, tenant))
    async with database.transaction() as holder:
        await holder.execute("INSERT INTO usage VALUES ($1, current_date, 'echo', 0, 0, 0, 0, 0, 0, 0)", tenant)
        running = asyncio.create_task(usage_counter.run(database, by_tenant=True))
        await until_blocked(database)
        await holder.execute(TERMINATE)
        assert REGISTRY.get_sample_value("charonia_tenant_jobs_total", labels) is None
    try:
        await until(lambda: REGISTRY.get_sample_value("charonia_tenant_jobs_total", labels) == 1, "it is counted")
        assert await roll_up(database, 100) == []
        assert REGISTRY.get_sample_value("charonia_tenant_jobs_total", labels) == 1
    finally:
        running.cancel()
    assert [used[:2] for used in await list_used(database, tenant)] == [("echo", 1)]
