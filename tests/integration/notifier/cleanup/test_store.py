"""Rows that no delivery needs are deleted, and no others."""

import asyncio
from uuid import UUID

import pytest

from common import ids
from common.postgres.database import Database
from services.gateway.webhooks.store import WebhookStore
from services.notifier.cleanup.store import (
    delete_expired_secrets,
    delete_old_recoveries,
    delete_unused_endpoints,
)
from tests.integration.deliveries import CALLBACK, add_event, subscribe
from tests.integration.notifier.steps import OK, Steps
from tests.integration.waiting import DEADLINE

OLD = 60.0  # seconds
HOUR = 3600.0


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database)


async def make_old(database: Database, table: str) -> None:
    change = f"UPDATE {table} SET created_at = created_at - interval '1 hour'"  # noqa: S608 -- a constant of the callers
    await database.fetch(change)


async def test_callback_endpoints_are_deleted_after_their_last_delivery(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    webhook = await subscribe(database, tenant, events=["job.failed"])
    await steps.schedule(await add_event(database, tenant, **CALLBACK))
    await steps.attempt(OK)
    assert await delete_unused_endpoints(database, 10) == 0
    await database.fetch("DELETE FROM deliveries")
    await database.fetch("UPDATE endpoints SET next_at = now() WHERE next_at IS NOT NULL")
    assert await steps.claim() == []  # so its check is over
    assert await delete_unused_endpoints(database, 10) == 1
    assert [record["id"] for record in await database.fetch("SELECT id FROM endpoints")] == [webhook.id]


async def test_recoveries_and_secrets_are_deleted_when_they_end(database: Database, tenant: UUID) -> None:
    webhook, store = await subscribe(database, tenant), WebhookStore(database)
    async with database.transaction() as connection:
        for _ in range(2):
            await store.add_recovery(connection, ids.new(), webhook.id, webhook.created_at, None)
        for grace in (-1.0, 60.0):
            await store.keep_old_secret(connection, ids.new(), tenant, webhook.id, b"old", grace)
    await database.fetch("UPDATE recoveries SET next_at = NULL WHERE id = (SELECT id FROM recoveries LIMIT 1)")
    assert await delete_old_recoveries(database, OLD, 10) == 0
    await make_old(database, "recoveries")
    assert await delete_old_recoveries(database, OLD, 10) == 1
    assert len(await database.fetch("SELECT id FROM recoveries WHERE next_at IS NOT NULL")) == 1
    assert await delete_expired_secrets(database) == 1
    assert len(await database.fetch("SELECT id FROM old_secrets WHERE until > now()")) == 1


async def test_cleanup_skips_what_is_deleted_with_its_subscription(database: Database, tenant: UUID) -> None:
    """Waiting could deadlock: both delete several rows, in any order."""
    webhook, store = await subscribe(database, tenant), WebhookStore(database)
    async with database.transaction() as connection:
        await store.add_recovery(connection, ids.new(), webhook.id, webhook.created_at, None)
        await store.keep_old_secret(connection, ids.new(), tenant, webhook.id, b"old", -1.0)
    await database.fetch("UPDATE recoveries SET next_at = NULL")
    await make_old(database, "recoveries")
    async with database.transaction() as connection, asyncio.timeout(DEADLINE):
        assert await store.lock(connection, webhook.id, tenant)
        await store.delete(connection, webhook.id)
        assert await delete_old_recoveries(database, OLD, 10) == 0
        assert await delete_expired_secrets(database) == 0
