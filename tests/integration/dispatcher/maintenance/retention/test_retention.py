"""Old jobs are removed completely, and nothing else is."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common import ids
from common.job_states import Status
from common.jobs.end import end_jobs
from common.jobs.remove import remove_old_jobs
from common.jobs.requeue import requeue_jobs
from common.jobs.submit import insert_jobs
from common.postgres.audit_log import AuditEntry, add_entries
from common.postgres.database import Database
from services.dispatcher.maintenance.retention import retention
from services.gateway.auth.authentication import hash_key
from services.gateway.auth.store import KeyStore, RateLimitStore
from tests.integration.jobs import claim, new_end, new_job, new_requeue, submit
from tests.integration.stores import Stores
from tests.integration.waiting import until_blocked

DAY = 86_400.0
UNDER_WAY = {
    kind: f"""
        WITH endpoint AS (
          INSERT INTO endpoints (id, tenant_id, origin) SELECT id, tenant_id, 'https://a' FROM events WHERE job_id = $1
        )
        INSERT INTO deliveries (event_id, tenant_id, job_id, url, event_type, endpoint_id, traceparent, next_at)
        SELECT id, tenant_id, job_id, 'https://a', type, id, '', {due} FROM events WHERE job_id = $1
    """  # noqa: S608 -- constants
    for kind, due in {"delivery new": "NULL", "delivery pending": "now()"}.items()
}
TABLES = ["jobs", "job_inputs", "job_outputs", "job_attempts", "events"]


@pytest.fixture
def stores(database: Database) -> Stores:
    return Stores(database)


async def end_long_ago(database: Database, stores: Stores, tenant: UUID, days: int) -> UUID:
    job = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(job)])
    job = await claim(database, job.id)
    await end_jobs(database, [new_end(job, Status.SUCCEEDED)])
    past = "UPDATE jobs SET finished_at = now() - $2::interval, ended_xid = NULL WHERE id = $1"
    await database.fetch(past, job.id, timedelta(days=days))
    return job.id


async def count(database: Database, table: str) -> int:
    (row,) = await database.fetch(f"SELECT count(*) FROM {table}")  # noqa: S608 -- a table of the schema
    found: int = row[0]
    return found


async def test_old_jobs_are_removed_with_all_their_rows(database: Database, stores: Stores, tenant: UUID) -> None:
    await end_long_ago(database, stores, tenant, days=9)
    recent = await end_long_ago(database, stores, tenant, days=1)
    await submit(database, tenant)
    before = {table: await count(database, table) for table in TABLES}
    assert (await remove_old_jobs(database, 7 * DAY, 100)).removed == 1
    assert {table: await count(database, table) for table in TABLES} == {
        table: rows - 1 for table, rows in before.items()
    }
    assert await database.fetch("SELECT 1 FROM job_outputs WHERE job_id = $1", recent)
    assert (await remove_old_jobs(database, 7 * DAY, 100)).removed == 0


async def test_the_oldest_jobs_are_removed_first(database: Database, stores: Stores, tenant: UUID) -> None:
    jobs = [await end_long_ago(database, stores, tenant, days) for days in (9, 30, 10)]
    assert (await remove_old_jobs(database, 7 * DAY, 2)).removed == 2
    (left,) = await database.fetch("SELECT id FROM jobs")
    assert left["id"] == jobs[0]


@pytest.mark.parametrize("under_way", UNDER_WAY.values(), ids=list(UNDER_WAY))
async def test_a_job_with_pending_webhooks_stays_and_blocks_no_other(
    database: Database, stores: Stores, tenant: UUID, monkeypatch: pytest.MonkeyPatch, under_way: str
) -> None:
    monkeypatch.setattr(retention, "BATCH", 1)
    jobs = [await end_long_ago(database, stores, tenant, days) for days in (30, 10, 9)]
    await database.fetch(under_way, jobs[0])
    async with asyncio.timeout(20):
        assert await retention.remove_old_jobs(database, 7 * DAY) == 2
    assert [row["id"] for row in await database.fetch("SELECT id FROM jobs")] == jobs[:1]


async def test_a_locked_job_is_removed_in_the_next_pass(database: Database, stores: Stores, tenant: UUID) -> None:
    job = await end_long_ago(database, stores, tenant, days=9)
    async with asyncio.timeout(10), database.transaction() as holder:
        await holder.execute("SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE", job)
        assert await retention.remove_old_jobs(database, 7 * DAY) == 0
    assert await retention.remove_old_jobs(database, 7 * DAY) == 1


async def test_idempotency_keys_are_removed_after_a_day(database: Database, stores: Stores, tenant: UUID) -> None:
    for key in ("old", "new"):
        await submit(database, tenant, idempotency_key=key, fingerprint=bytes(32))
    await database.fetch("UPDATE idempotency_keys SET created_at = now() - interval '25 hours' WHERE key = 'old'")
    assert await stores.retention.remove_keys(100) == 1
    assert [row["key"] for row in await database.fetch("SELECT key FROM idempotency_keys")] == ["new"]


async def test_a_key_that_is_used_again_meanwhile_stays(database: Database, stores: Stores, tenant: UUID) -> None:
    """The removal finds the old key, and waits for a submit that uses it anew."""
    await submit(database, tenant, idempotency_key="again", fingerprint=bytes(32))
    await database.fetch("UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
    async with database.transaction() as submitting:
        await insert_jobs(submitting, [new_job(tenant, idempotency_key="again", fingerprint=bytes([1] * 32))])
        removing = asyncio.create_task(stores.retention.remove_keys(100))
        await until_blocked(database)
    assert await removing == 0
    assert [row["key"] for row in await database.fetch("SELECT key FROM idempotency_keys")] == ["again"]


async def test_api_keys_are_removed_a_day_after_they_expired(database: Database, stores: Stores, tenant: UUID) -> None:
    keys, made = KeyStore(database), {name: ids.new() for name in ("old", "expired", "valid", "lasting")}
    for name, hours in {"old": -25, "expired": -23, "valid": 1, "lasting": None}.items():
        expires_at = None if hours is None else datetime.now(UTC) + timedelta(hours=hours)
        await keys.add_key(made[name], tenant, name, hash_key(name), expires_at=expires_at, actor="test")
    await RateLimitStore(database).add_buckets([*made.values()])
    assert await keys.count_active(tenant) == 2
    assert [await stores.retention.remove_expired_api_keys(100) for _ in range(2)] == [1, 0]
    assert {row.name for row in await keys.list_keys(tenant)} == {"expired", "valid", "lasting"}


async def test_old_entries_of_the_audit_log_are_removed_in_batches(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    async with database.transaction() as connection:
        await add_entries(connection, [AuditEntry(tenant, "test", "key.revoked", str(number)) for number in range(5)])
    await database.fetch("UPDATE audit_log SET at = now() - interval '366 days' WHERE action = 'key.revoked'")
    removed = [await stores.retention.remove_audit_log(365 * DAY, 3) for _ in range(3)]
    assert removed == [3, 2, 0]
    assert [record["action"] for record in await database.fetch("SELECT action FROM audit_log")] == ["tenant.created"]
