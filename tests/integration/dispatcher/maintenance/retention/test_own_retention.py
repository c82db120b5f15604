"""A job or a tenant may keep ended jobs for a shorter time than all others."""

from datetime import timedelta
from uuid import UUID

import asyncpg
import pytest

from common import ids
from common.job_states import Status
from common.jobs.end import end_jobs
from common.postgres.database import Database
from services.dispatcher.maintenance.retention import own_retention
from services.dispatcher.maintenance.retention.store import QUERIES, RetentionStore
from services.gateway.batches.store import BatchStore, NewBatch
from tests.integration.jobs import TRACEPARENT, add_tenant, claim, new_end, new_job, submit

HOUR = 3600.0
PENDING = """
WITH endpoint AS (
  INSERT INTO endpoints (id, tenant_id, origin) SELECT id, tenant_id, 'https://a' FROM events WHERE job_id = $1
)
INSERT INTO deliveries (id, event_id, event_generation, tenant_id, job_id, url, event_type, endpoint_id, traceparent)
SELECT derive_id(id, id), id, generation, tenant_id, job_id, 'https://a', type, id, '' FROM events WHERE job_id = $1
"""
PAST = """
UPDATE jobs
SET created_at = now() - $2::interval, finished_at = now() - $2::interval, ended_xid = NULL -- its usage is counted
WHERE id = $1
"""


@pytest.fixture
def store(database: Database) -> RetentionStore:
    return RetentionStore(database)


async def end(database: Database, job: UUID, hours_ago: float, status: Status = Status.SUCCEEDED) -> UUID:
    await end_jobs(database, [new_end(await claim(database, job), status)])
    await database.fetch(PAST, job, timedelta(hours=hours_ago))
    return job


async def list_jobs(database: Database) -> set[UUID]:
    return {record["id"] for record in await database.fetch("SELECT id FROM jobs")}


async def test_a_job_is_removed_when_its_own_retention_is_over(
    database: Database, store: RetentionStore, tenant: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_retention, "BATCH", 2)
    for _ in range(5):
        await end(database, await submit(database, tenant, retain=HOUR), 2)
    kept = {
        await end(database, await submit(database, tenant, retain=HOUR), 0.5),
        await end(database, await submit(database, tenant), 2),
        await submit(database, tenant, retain=HOUR),
    }
    assert await own_retention.remove_retained(store) == 5
    assert await list_jobs(database) == kept


async def test_a_tenants_retention_holds_for_its_ended_jobs(database: Database, store: RetentionStore) -> None:
    short, other = await add_tenant(database, "short"), await add_tenant(database, "other")
    await database.fetch("UPDATE tenants SET retention = $2 WHERE id = $1", short, HOUR)
    for status in (Status.SUCCEEDED, Status.FAILED):
        await end(database, await submit(database, short), 2, status)
    late = await end(database, await submit(database, short), 2)
    await database.fetch("UPDATE jobs SET finished_at = now() WHERE id = $1", late)  # it waited for long
    kept = {late, await end(database, await submit(database, other), 2), await submit(database, short)}
    assert await own_retention.remove_retained(store) == 2
    assert await list_jobs(database) == kept


async def test_a_job_with_a_pending_delivery_stays(
    database: Database, store: RetentionStore, tenant: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_retention, "BATCH", 1)
    waiting = await end(database, await submit(database, tenant, retain=HOUR), 3)
    await database.fetch(PENDING, waiting)
    await end(database, await submit(database, tenant, retain=HOUR), 2)
    assert await own_retention.remove_retained(store) == 1
    assert await list_jobs(database) == {waiting}


async def test_a_batch_goes_with_its_last_job_but_not_before_it_is_completed(
    database: Database, store: RetentionStore, tenant: UUID
) -> None:
    batch = NewBatch(ids.new(), tenant, 2, 2, TRACEPARENT)
    jobs = [new_job(tenant, retain=HOUR, batch_id=batch.id) for _ in range(2)]
    await BatchStore(database).add(batch, jobs)
    await end(database, jobs[0].id, 2)
    assert await own_retention.remove_retained(store) == 0
    await end(database, jobs[1].id, 0)
    await database.fetch("UPDATE batches SET finished_at = now()")
    assert await own_retention.remove_retained(store) == 1
    assert len(await database.fetch("SELECT FROM batches")) == 1
    await database.fetch("UPDATE jobs SET finished_at = now() - interval '2 hours'")
    assert await own_retention.remove_retained(store) == 1
    assert await database.fetch("SELECT FROM batches") == []


async def test_no_statement_removes_more_items_of_batches_than_fit(
    database: Database, store: RetentionStore, tenant: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_retention, "BATCH_ITEMS", 10)
    for _ in range(3):
        batch = NewBatch(ids.new(), tenant, 10, 1, TRACEPARENT)
        job = new_job(tenant, retain=HOUR, batch_id=batch.id)
        await BatchStore(database).add(batch, [job])
        await end(database, job.id, 2)
    await database.fetch("UPDATE batches SET finished_at = now()")
    fetch, removed = database.fetch, []

    async def count(statement: str, *values: object) -> list[asyncpg.Record]:
        found = await fetch(statement, *values)
        if statement == QUERIES["remove_empty_batches"]:
            removed.append(len(found))
        return found

    monkeypatch.setattr(database, "fetch", count)
    assert await own_retention.remove_retained(store) == 3
    assert removed == [1, 1, 1]
