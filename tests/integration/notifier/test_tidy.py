"""What no delivery needs any more is removed, and nothing else."""

from uuid import UUID

import pytest

from common import ids
from common.database import Database
from services.gateway.webhook_store import WebhookStore
from services.notifier.tidy import purge
from tests.integration.deliveries import CALLBACK, add_event, subscribe
from tests.integration.notifier.steps import GIVEN_UP, OK, Steps

OLD = 60.0  # seconds
HOUR = 3600.0


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database)


async def make_old(database: Database, table: str) -> None:
    change = f"UPDATE {table} SET created_at = created_at - interval '1 hour'"  # noqa: S608 -- a name from below
    await database.fetch(change)


async def test_operational_events_go_once_they_are_old_and_told(database: Database, tenant: UUID, steps: Steps) -> None:
    await subscribe(database, tenant, events=["*"])
    await steps.fan_out(job_event := await add_event(database, tenant))
    await steps.attempt(GIVEN_UP)
    (told,) = await database.fetch("SELECT id FROM events WHERE type = 'delivery.exhausted'")
    await make_old(database, "events")
    assert await purge(database, "purge_events", OLD, 10) == 0  # not fanned out
    await steps.fan_out(told["id"])
    assert await purge(database, "purge_events", OLD, 10) == 0  # pending
    await steps.attempt(OK)
    assert await purge(database, "purge_events", 2 * HOUR, 10) == 0  # not so old
    assert await purge(database, "purge_events", OLD, 10) == 1
    assert [record["id"] for record in await database.fetch("SELECT id FROM events")] == [job_event]
    assert len(await database.fetch("SELECT id FROM deliveries")) == 1


async def test_endpoints_of_callbacks_go_with_their_last_delivery(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    webhook = await subscribe(database, tenant, events=["job.failed"])
    await steps.fan_out(await add_event(database, tenant, **CALLBACK))
    await steps.attempt(OK)
    assert await purge(database, "purge_endpoints", 10) == 0
    await database.fetch("DELETE FROM deliveries")
    assert await purge(database, "purge_endpoints", 10) == 1
    assert [record["id"] for record in await database.fetch("SELECT id FROM endpoints")] == [webhook.id]


async def test_recoveries_and_secrets_go_once_they_are_over(database: Database, tenant: UUID) -> None:
    webhook, store = await subscribe(database, tenant), WebhookStore(database)
    async with database.transaction() as connection:
        for _ in range(2):
            await store.add_recovery(connection, ids.new(), webhook.id, webhook.created_at, None)
        for grace in (-1.0, 60.0):
            await store.keep_old_secret(connection, ids.new(), tenant, webhook.id, b"old", grace)
    await database.fetch("UPDATE recoveries SET next_at = NULL WHERE id = (SELECT id FROM recoveries LIMIT 1)")
    assert await purge(database, "purge_recoveries", OLD, 10) == 0
    await make_old(database, "recoveries")
    assert await purge(database, "purge_recoveries", OLD, 10) == 1
    assert len(await database.fetch("SELECT id FROM recoveries WHERE next_at IS NOT NULL")) == 1
    assert await purge(database, "purge_secrets") == 1
    assert len(await database.fetch("SELECT id FROM old_secrets WHERE until > now()")) == 1
