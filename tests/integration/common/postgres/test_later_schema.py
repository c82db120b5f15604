"""Services go on after a migration of a later release, which adds columns to what their statements return."""

import asyncpg
import pytest

from common.errors import DatabaseUnavailable
from common.jobs.cancel import lock_job
from common.postgres.database import Database
from services.gateway.webhooks.store import WebhookStore
from services.notifier.claims.store import ClaimStore
from tests.integration.deliveries import add_due, subscribe
from tests.integration.jobs import add_tenant, submit
from tests.support.database.later_release import ADD_COLUMNS


async def migrate(url: str) -> None:
    connection = await asyncpg.connect(url)
    for migration in ADD_COLUMNS:
        await connection.execute(migration)
    await connection.close()


async def test_a_transaction_meets_a_migration_as_an_outage_of_a_moment(database_url: str) -> None:
    database = await Database.connect(database_url, size=1, application="tests")
    tenant = await add_tenant(database, "default")
    job = await submit(database, tenant)

    async def lock() -> None:
        async with database.transaction() as connection:
            assert await lock_job(connection, job, tenant) is not None

    await lock()
    await migrate(database_url)
    with pytest.raises(DatabaseUnavailable, match="cached statement plan is invalid"):
        await lock()
    await lock()
    await database.close()


async def test_statements_that_name_their_columns_go_on(database_url: str) -> None:
    database = await Database.connect(database_url, size=1, application="tests")
    tenant = await add_tenant(database, "default")
    webhooks, claims = WebhookStore(database), ClaimStore(database)

    async def use() -> None:
        webhook = await subscribe(database, tenant)
        async with database.transaction() as connection:
            assert await webhooks.lock(connection, webhook.id, tenant) == webhook
        due = await add_due(database, tenant, webhook.id)
        assert [claim.id for claim in (await claims.claim_due(9, 60.0, 9)).claims] == due

    await use()
    await migrate(database_url)
    await use()
    await database.close()
