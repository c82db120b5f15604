"""What is old is removed, whole, and nothing else."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from common.database import Database
from common.jobs import Status
from services.dispatcher import purge
from services.dispatcher.store import Store
from tests.integration.jobs import claim, new_end, submit

DAY = 86_400.0
UNDER_WAY = {
    "event not yet told": "UPDATE events SET fanned_out_at = NULL WHERE job_id = $1",
    "delivery pending": """
        WITH endpoint AS (
          INSERT INTO endpoints (id, tenant_id, origin) SELECT id, tenant_id, 'https://a' FROM events WHERE job_id = $1
        )
        INSERT INTO deliveries (id, event_id, tenant_id, job_id, url, event_type, endpoint_id, traceparent, status,
                                next_at)
        SELECT id, id, tenant_id, job_id, 'https://a', type, id, '', 'pending', now() FROM events WHERE job_id = $1
    """,
}
TABLES = ["jobs", "job_inputs", "job_outputs", "job_attempts", "events"]


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def end_long_ago(database: Database, store: Store, tenant: UUID, days: int) -> UUID:
    job = await claim(database, await submit(database, tenant))
    await store.end_jobs([new_end(job, Status.SUCCEEDED)])
    await database.fetch("UPDATE events SET fanned_out_at = now() WHERE job_id = $1", job.row.id)
    past = "UPDATE jobs SET finished_at = now() - $2::interval WHERE id = $1"
    await database.fetch(past, job.row.id, timedelta(days=days))
    return job.row.id


async def count(database: Database, table: str) -> int:
    (row,) = await database.fetch(f"SELECT count(*) FROM {table}")  # noqa: S608 -- one of ours
    found: int = row[0]
    return found


async def test_old_jobs_go_with_all_that_is_theirs_and_the_others_stay(
    database: Database, store: Store, tenant: UUID
) -> None:
    await end_long_ago(database, store, tenant, days=9)
    recent = await end_long_ago(database, store, tenant, days=1)
    await submit(database, tenant)
    before = {table: await count(database, table) for table in TABLES}
    assert (await store.purge_jobs(7 * DAY, 100)).removed == 1
    assert {table: await count(database, table) for table in TABLES} == {
        table: rows - 1 for table, rows in before.items()
    }
    assert await database.fetch("SELECT 1 FROM job_outputs WHERE job_id = $1", recent)
    assert (await store.purge_jobs(7 * DAY, 100)).removed == 0


async def test_they_go_oldest_first_a_few_at_a_time(database: Database, store: Store, tenant: UUID) -> None:
    jobs = [await end_long_ago(database, store, tenant, days) for days in (9, 30, 10)]
    assert (await store.purge_jobs(7 * DAY, 2)).removed == 2
    (left,) = await database.fetch("SELECT id FROM jobs")
    assert left["id"] == jobs[0]


@pytest.mark.parametrize("under_way", UNDER_WAY.values(), ids=list(UNDER_WAY))
async def test_a_job_whose_webhooks_are_under_way_stays_and_holds_nobody_up(
    database: Database, store: Store, tenant: UUID, monkeypatch: pytest.MonkeyPatch, under_way: str
) -> None:
    monkeypatch.setattr(purge, "BATCH", 1)
    jobs = [await end_long_ago(database, store, tenant, days) for days in (30, 10, 9)]
    await database.fetch(under_way, jobs[0])
    async with asyncio.timeout(20):
        assert await purge.sweep(store, 7 * DAY) == 2
    assert [row["id"] for row in await database.fetch("SELECT id FROM jobs")] == jobs[:1]


async def test_a_job_that_somebody_holds_is_left_for_the_next_pass(
    database: Database, store: Store, tenant: UUID
) -> None:
    job = await end_long_ago(database, store, tenant, days=9)
    async with asyncio.timeout(10), database.transaction() as holder:
        await holder.execute("SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE", job)
        assert await purge.sweep(store, 7 * DAY) == 0
    assert await purge.sweep(store, 7 * DAY) == 1


async def test_idempotency_keys_go_after_a_day(database: Database, store: Store, tenant: UUID) -> None:
    for key in ("old", "new"):
        await submit(database, tenant, idempotency_key=key, fingerprint=bytes(32))
    await database.fetch("UPDATE idempotency_keys SET created_at = now() - interval '25 hours' WHERE key = 'old'")
    assert await store.purge_keys(100) == 1
    assert [row["key"] for row in await database.fetch("SELECT key FROM idempotency_keys")] == ["new"]
