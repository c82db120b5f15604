"""Deliveries that waited a whole schedule for a failing endpoint end, however many they are, in small batches."""

from uuid import UUID

import pytest

from common.postgres.database import Database
from services.notifier.overdue_deliveries import sweep
from services.notifier.overdue_deliveries.store import exhaust_deliveries, find_overdue
from services.notifier.overdue_deliveries.sweep import BATCH
from tests.integration.deliveries import add_due, subscribe
from tests.integration.forgetting import forget
from tests.integration.notifier.steps import SCHEDULE, Steps

WHOLE = sum(SCHEDULE) * 1.2
FAILING = """
UPDATE endpoints
SET failures = 30, failing_since = now() - make_interval(secs => $1), open_until = now() + interval '5 minutes'
"""
AGE = "UPDATE deliveries SET schedule_started_at = now() - make_interval(secs => $1)"
BATCHES = "SELECT count(*) AS size FROM deliveries WHERE status = 'exhausted' GROUP BY xmin::text"  # by transaction


@pytest.fixture
async def webhook(database: Database, tenant: UUID) -> UUID:
    return (await subscribe(database, tenant)).id


async def make_overdue(database: Database) -> None:
    await database.fetch(FAILING, WHOLE + 9)
    await database.fetch(AGE, WHOLE + 9)


async def test_all_overdue_deliveries_end_in_small_batches(
    database: Database, tenant: UUID, webhook: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "FOUND", 2 * BATCH)  # so that one search does not find all
    await add_due(database, tenant, webhook, 5 * BATCH)
    await make_overdue(database)
    await Steps(database).overdue.exhaust()
    assert await database.fetch("SELECT 1 FROM deliveries WHERE status = 'pending'") == []
    assert [record["size"] for record in await database.fetch(BATCHES)] == [BATCH] * 5
    assert len(await database.fetch("SELECT 1 FROM events WHERE type = 'delivery.exhausted'")) == 5 * BATCH


async def test_their_jobs_can_be_removed_at_once(database: Database, tenant: UUID, webhook: UUID) -> None:
    await add_due(database, tenant, webhook, BATCH + 1)
    await database.fetch("UPDATE jobs SET status = 'canceled', generation = 1, finished_at = now() - interval '1 hour'")
    await make_overdue(database)
    assert await forget(database) == 1
    assert len(await database.fetch("SELECT FROM jobs")) == 1
    await Steps(database).overdue.exhaust()
    assert await forget(database) == 1
    assert await database.fetch("SELECT FROM jobs") == []


async def test_a_success_after_the_search_keeps_the_deliveries(database: Database, tenant: UUID, webhook: UUID) -> None:
    await add_due(database, tenant, webhook, 3)
    await make_overdue(database)
    found = await find_overdue(database, WHOLE, 10)
    assert len(found) == 3
    await database.fetch("UPDATE endpoints SET failures = 0, failing_since = NULL, open_until = NULL")
    async with database.transaction() as connection:
        assert await exhaust_deliveries(connection, [each.id for each in found]) == []
