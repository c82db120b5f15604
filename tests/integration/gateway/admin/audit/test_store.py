"""Pages and filters of the audit log."""

from datetime import datetime
from uuid import UUID

import pytest

from common.postgres.audit_log import AuditEntry, add_entries
from common.postgres.database import Database
from services.gateway.admin.audit.store import NEWEST, AuditRow, AuditStore
from services.gateway.commands.audit import PAGE, read_log
from tests.integration.jobs import add_tenant


@pytest.fixture
def store(database: Database) -> AuditStore:
    return AuditStore(database)


async def add(database: Database, tenant: UUID | None, *targets: str) -> None:
    """Add entries in one transaction, so that some have the same time."""
    async with database.transaction() as connection:
        await add_entries(connection, [AuditEntry(tenant, "test", "key.revoked", target) for target in targets])


async def test_pages_have_no_gaps_and_no_duplicates(database: Database, store: AuditStore, tenant: UUID) -> None:
    await add(database, tenant, *map(str, range(6)))
    await database.fetch("UPDATE audit_log SET at = now() WHERE action = 'key.revoked'")
    found: list[AuditRow] = []
    cursor = NEWEST
    while page := await store.list(tenant, cursor, 3):
        found, cursor = found + page, page[-1].cursor
    assert sorted(row.target for row in found if row.action == "key.revoked") == [*map(str, range(6))]
    assert [row.cursor for row in found] == sorted((row.cursor for row in found), reverse=True)


async def test_entries_are_found_by_time_and_action(database: Database, store: AuditStore, tenant: UUID) -> None:
    await add(database, tenant, "a")
    (newest, created) = await store.list(tenant, NEWEST, 10)
    assert (newest.action, created.action) == ("key.revoked", "tenant.created")
    assert await store.list(tenant, NEWEST, 10, action="tenant.created") == [created]
    assert await store.list(tenant, NEWEST, 10, since=newest.at) == [newest]
    until: datetime = newest.at
    assert await store.list(tenant, NEWEST._replace(created_at=until), 10) == [created]


async def test_a_tenant_sees_only_its_own_entries(database: Database, store: AuditStore, tenant: UUID) -> None:
    stranger = await add_tenant(database, "stranger")
    await add(database, tenant, "of the tenant")
    await add(database, None, "of all")
    assert [row.action for row in await store.list(stranger, NEWEST, 10)] == ["tenant.created"]
    assert {row.target for row in await store.list(tenant, NEWEST, 10)} >= {"of the tenant"}
    assert "of all" not in {row.target for row in await store.list(tenant, NEWEST, 10)}


async def test_operators_read_all_pages_of_all_tenants(database: Database, tenant: UUID) -> None:
    await add(database, tenant, *map(str, range(PAGE)))
    await add(database, None, "of all")
    every = [row.target async for row in read_log(database, None)]
    assert (len(every), every[0]) == (PAGE + 2, "of all")
    assert len([row async for row in read_log(database, tenant)]) == PAGE + 1
