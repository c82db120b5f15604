"""Keys, audit entries and batches are removed when they are old, and nothing else is."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common import ids
from common.jobs.submit import insert_jobs
from common.postgres.audit_log import AuditEntry, add_entries
from common.postgres.database import Database
from services.gateway.auth.authentication import hash_key
from services.gateway.auth.store import KeyStore, RateLimitStore
from tests.integration.jobs import new_job, submit
from tests.integration.stores import Stores
from tests.integration.waiting import until_blocked

DAY = 86_400.0


@pytest.fixture
def stores(database: Database) -> Stores:
    return Stores(database)


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
