"""A tenant reads its own usage, page by page."""

from datetime import date, timedelta
from uuid import UUID

from common.postgres.database import Database
from services.gateway.reports.usage.store import UsageCursor, UsageStore
from tests.integration.jobs import add_tenant

TODAY = date(2026, 11, 22)
YESTERDAY = TODAY - timedelta(days=1)
NEWEST = UsageCursor(TODAY + timedelta(days=1), "")
ADD = """
INSERT INTO usage (tenant_id, day, model, succeeded, failed, canceled, expired, inference_seconds, bytes_in, bytes_out)
VALUES ($1, $2, $3, 1, 0, 0, 0, 0, 0, 0)
"""


async def list_used(store: UsageStore, tenant: UUID, after: UsageCursor, model: str | None = None) -> list[UsageCursor]:
    found = await store.list(tenant, after, YESTERDAY, model, 2)
    return [UsageCursor(row.day, row.model) for row in found]


async def test_pages_have_only_the_tenants_usage_without_gaps(database: Database, tenant: UUID) -> None:
    other, store = await add_tenant(database, "other"), UsageStore(database)
    places = [
        UsageCursor(TODAY, "b"),
        UsageCursor(TODAY, "a"),
        UsageCursor(YESTERDAY, "b"),
        UsageCursor(YESTERDAY - timedelta(days=1), "b"),
    ]
    for place in places:
        await database.fetch(ADD, tenant, *place)
    await database.fetch(ADD, other, TODAY, "c")
    first = await list_used(store, tenant, NEWEST)
    assert first == places[:2]
    assert await list_used(store, tenant, first[-1]) == [places[2]]
    assert await list_used(store, tenant, NEWEST, "a") == [places[1]]
