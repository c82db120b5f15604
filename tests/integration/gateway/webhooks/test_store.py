"""The store of subscriptions."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import msgspec
import pytest

from common.postgres.database import Connection, Database
from services.gateway.webhooks.store import NewWebhook, WebhookRow, WebhookStore
from services.notifier.cleanup.store import delete_unused_endpoints
from tests.integration.deliveries import MAX_WEBHOOKS, add_due, examine, new_entry, new_webhook
from tests.integration.jobs import add_tenant
from tests.integration.waiting import until_blocked

MAKE_UNHEALTHY = """
UPDATE endpoints
SET failures = 30, failing_since = now(), open_until = now() + interval '1 hour', next_at = now() + interval '1 hour',
    rate_limited_until = now() + interval '1 minute'
WHERE id = $1
"""


@pytest.fixture
def store(database: Database) -> WebhookStore:
    return WebhookStore(database)


async def add(store: WebhookStore, webhook: NewWebhook) -> WebhookRow:
    row = await store.add(webhook, MAX_WEBHOOKS, new_entry(webhook))
    assert row is not None
    return row


async def test_a_subscription_is_stored_as_given(store: WebhookStore, tenant: UUID) -> None:
    new = new_webhook(tenant, models=["ocr"], headers=b"sealed", rate_limit=50, ordered=True)
    added = await add(store, new)
    assert await store.find(new.id, tenant) == added
    names = [name for name in new.__struct_fields__ if name != "tenant_id"]
    assert [getattr(added, name) for name in names] == [getattr(new, name) for name in names]
    assert (added.disabled_at, added.disabled_reason) == (None, None)


async def test_missing_fields_are_stored_as_null(store: WebhookStore, tenant: UUID) -> None:
    row = await add(store, new_webhook(tenant, description=None))
    assert (row.models, row.description, row.headers, row.rate_limit) == (None, None, None, None)


async def test_a_tenant_has_no_more_subscriptions_than_its_limit(
    database: Database, store: WebhookStore, tenant: UUID
) -> None:
    """However many are created at once, over all gateways."""

    async def add(tenant: UUID) -> WebhookRow | None:
        webhook = new_webhook(tenant)
        return await store.add(webhook, 3, new_entry(webhook))

    added = await asyncio.gather(*(add(tenant) for _ in range(6)))
    kept = [row for row in added if row is not None]
    assert len(kept) == 3
    assert await add(await add_tenant(database, "other")) is not None
    async with database.transaction() as connection:
        await store.delete(connection, kept[0].id)
    assert await add(tenant) is not None
    assert await add(tenant) is None


async def test_pages_have_no_gaps_and_no_duplicates(store: WebhookStore, tenant: UUID) -> None:
    added = sorted([(await add(store, new_webhook(tenant))).id for _ in range(5)])
    found: list[UUID] = []
    while page := await store.list(tenant, found[-1] if found else None, 2):
        assert len(page) <= 2
        found += [row.id for row in page]
    assert found == added


async def test_another_tenants_subscriptions_cannot_be_reached(
    database: Database, store: WebhookStore, tenant: UUID
) -> None:
    row = await add(store, new_webhook(tenant))
    stranger = await add_tenant(database, "stranger")
    assert await store.find(row.id, stranger) is None
    assert await store.list(stranger, None, 10) == []
    async with database.transaction() as connection:
        assert await store.lock(connection, row.id, stranger) is None


async def test_a_subscription_is_deleted_and_then_its_endpoint(
    database: Database, store: WebhookStore, tenant: UUID
) -> None:
    row = await add(store, new_webhook(tenant))
    async with database.transaction() as connection:
        assert await store.lock(connection, row.id, tenant) == row
        await store.delete(connection, row.id)
    assert await store.find(row.id, tenant) is None
    assert await delete_unused_endpoints(database, 10) == 1
    assert await database.fetch("SELECT id FROM endpoints") == []


async def change(database: Database, store: WebhookStore, row: WebhookRow, **fields: object) -> None:
    async with database.transaction() as connection:
        await store.update(connection, row, msgspec.structs.replace(row, **fields))


async def test_every_changeable_field_is_written(database: Database, store: WebhookStore, tenant: UUID) -> None:
    row = await add(store, new_webhook(tenant, models=["ocr"], headers=b"sealed", rate_limit=50))
    other = await add(store, new_webhook(tenant))
    fields: dict[str, object] = {"url": "https://b", "events": ["*"], "models": ["echo"], "description": "new"}
    fields |= {"headers": b"x", "ordered": True}
    await change(database, store, row, **fields, rate_limit=7)
    assert await store.find(row.id, tenant) == msgspec.structs.replace(row, **fields, rate_limit=7)
    emptied = dict.fromkeys(("models", "description", "headers", "rate_limit"))
    await change(database, store, row, **emptied)
    assert await store.find(row.id, tenant) == msgspec.structs.replace(row, **emptied)
    assert await store.find(other.id, tenant) == other


async def test_a_new_url_resets_the_endpoints_health(database: Database, store: WebhookStore, tenant: UUID) -> None:
    row = await add(store, new_webhook(tenant))
    await add_due(database, tenant, row.id)
    await database.fetch(MAKE_UNHEALTHY, row.id)
    await change(database, store, row, description="the same receiver")
    before = await examine(database, row.id)
    assert (before.failures, (before.opens or 0) > 3000) == (30, True)
    await change(database, store, row, url="https://b")
    health = await examine(database, row.id)
    assert (health[:3], (health.next or 0) <= 0) == ((0, None, None), True)


async def test_enabling_resets_the_endpoints_health(database: Database, store: WebhookStore, tenant: UUID) -> None:
    row = await add(store, new_webhook(tenant))
    await database.fetch(MAKE_UNHEALTHY, row.id)
    await database.fetch("UPDATE webhooks SET disabled_at = now(), disabled_reason = 'failing'")
    async with database.transaction() as connection:
        await store.enable(connection, row.id)
    assert await store.find(row.id, tenant) == row
    assert (await examine(database, row.id))[:3] == (0, None, None)


async def race(
    database: Database,
    store: WebhookStore,
    row: WebhookRow,
    tenant: UUID,
    meanwhile: Callable[[Connection], Awaitable[None]],
) -> WebhookRow | None:
    """Return what a second caller reads under the lock after the first caller, which held it, commits `meanwhile`."""

    async def read() -> WebhookRow | None:
        async with database.transaction() as connection:
            return await store.lock(connection, row.id, tenant)

    async with database.transaction() as connection:
        await store.lock(connection, row.id, tenant)
        second = asyncio.create_task(read())
        await until_blocked(database)
        await meanwhile(connection)
    return await second


async def test_a_waiting_lock_reads_what_the_other_transaction_wrote(
    database: Database, store: WebhookStore, tenant: UUID
) -> None:
    row = await add(store, new_webhook(tenant))

    async def rotate(connection: Connection) -> None:
        await store.set_secret(connection, tenant, row.id, b"another")

    assert await race(database, store, row, tenant, rotate) == msgspec.structs.replace(row, secret=b"another")

    async def delete(connection: Connection) -> None:
        await store.delete(connection, row.id)

    assert await race(database, store, row, tenant, delete) is None
