"""What is old is removed, whole, and nothing else."""

from datetime import timedelta
from uuid import UUID

import pytest

from common.database import Database
from common.jobs import Status
from services.dispatcher.store import Store
from tests.integration.jobs import claim, new_end, submit

DAY = 86_400.0
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
    assert await store.purge_jobs(7 * DAY, 100) == 1
    assert {table: await count(database, table) for table in TABLES} == {
        table: rows - 1 for table, rows in before.items()
    }
    assert await database.fetch("SELECT 1 FROM job_outputs WHERE job_id = $1", recent)
    assert await store.purge_jobs(7 * DAY, 100) == 0


async def test_they_go_oldest_first_a_few_at_a_time(database: Database, store: Store, tenant: UUID) -> None:
    jobs = [await end_long_ago(database, store, tenant, days) for days in (9, 30, 10)]
    assert await store.purge_jobs(7 * DAY, 2) == 2
    (left,) = await database.fetch("SELECT id FROM jobs")
    assert left["id"] == jobs[0]


async def test_a_job_whose_event_is_not_yet_told_stays(database: Database, store: Store, tenant: UUID) -> None:
    job = await end_long_ago(database, store, tenant, days=9)
    await database.fetch("UPDATE events SET fanned_out_at = NULL WHERE job_id = $1", job)
    assert await store.purge_jobs(7 * DAY, 100) == 0
