"""Subscriptions in the database."""

from uuid import UUID

import pytest

from common.database import Database
from services.gateway.store import Store
from services.gateway.webhook_store import WebhookStore
from tests.integration.deliveries import new_webhook
from tests.integration.jobs import add_tenant


@pytest.fixture
def store(database: Database) -> WebhookStore:
    return WebhookStore(database)


async def test_a_subscription_is_kept_as_given(store: WebhookStore, tenant: UUID) -> None:
    new = new_webhook(tenant, models=["ocr"], headers=b"sealed", rate_limit=50)
    added = await store.add(new)
    assert await store.find(new.id, tenant) == added
    names = [name for name in new.__struct_fields__ if name != "tenant_id"]
    assert [getattr(added, name) for name in names] == [getattr(new, name) for name in names]
    assert (added.disabled_at, added.disabled_reason) == (None, None)


async def test_what_is_left_out_stays_empty(store: WebhookStore, tenant: UUID) -> None:
    row = await store.add(new_webhook(tenant, description=None))
    assert (row.models, row.description, row.headers, row.rate_limit) == (None, None, None, None)


async def test_pages_follow_each_other_without_gaps_or_doubles(store: WebhookStore, tenant: UUID) -> None:
    added = sorted([(await store.add(new_webhook(tenant))).id for _ in range(5)])
    found: list[UUID] = []
    while page := await store.list(tenant, found[-1] if found else None, 2):
        assert len(page) <= 2
        found += [row.id for row in page]
    assert found == added


async def test_another_tenants_subscriptions_are_out_of_reach(
    database: Database, store: WebhookStore, tenant: UUID
) -> None:
    row = await store.add(new_webhook(tenant))
    stranger = await add_tenant(Store(database), "stranger")
    assert await store.find(row.id, stranger) is None
    assert await store.list(stranger, None, 10) == []
    async with database.transaction() as connection:
        assert await store.lock(connection, row.id, stranger) is None


async def test_a_subscription_is_deleted_with_its_endpoint(
    database: Database, store: WebhookStore, tenant: UUID
) -> None:
    row = await store.add(new_webhook(tenant))
    async with database.transaction() as connection:
        assert await store.lock(connection, row.id, tenant) == row
        await store.delete(connection, row.id)
    assert await store.find(row.id, tenant) is None
    assert await database.fetch("SELECT id FROM endpoints") == []
