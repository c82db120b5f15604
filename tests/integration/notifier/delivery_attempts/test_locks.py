"""What recording an attempt writes and waits for, and which of two writers wins."""

import asyncio
from uuid import UUID

import pytest

from common.postgres.database import Database
from services.notifier.claims.store import claim_deliveries
from services.notifier.claims.tenant_slots import UNLIMITED
from services.notifier.delivery_attempts.recorder import make_record
from services.notifier.delivery_attempts.store import AttemptStore
from services.notifier.endpoints.store import lock_endpoints
from tests.integration.deliveries import add_due, add_event, examine, look_at, subscribe
from tests.integration.notifier.steps import FAILED, LEASE, OK, Steps
from tests.integration.waiting import DEADLINE, until_blocked


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database)


@pytest.fixture
async def webhook(database: Database, tenant: UUID) -> UUID:
    return (await subscribe(database, tenant)).id


async def test_a_newer_claim_wins_over_a_waiting_failure(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    (delivery,) = await add_due(database, tenant, webhook)
    (lapsed,) = await steps.claim(lease=0.0)
    async with database.transaction() as connection:
        await lock_endpoints(connection, [webhook])
        recording = asyncio.create_task(steps.record([lapsed], FAILED))
        await until_blocked(database)
        assert await claim_deliveries(connection, [webhook], 10, LEASE, 10, UNLIMITED)
    assert await recording == [False]
    state = await look_at(database, delivery)
    assert (state.status, state.attempt, state.leased) == ("pending", 2, True)


async def test_a_newer_claim_wins_over_a_waiting_success(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    (delivery,) = await add_due(database, tenant, webhook)
    (lapsed,) = await steps.claim(lease=0.0)
    async with database.transaction() as connection:
        await lock_endpoints(connection, [webhook])
        assert await claim_deliveries(connection, [webhook], 10, LEASE, 10, UNLIMITED)
        recording = asyncio.create_task(steps.record([lapsed], OK))
        await until_blocked(database)
    assert await recording == [False]
    state = await look_at(database, delivery)
    assert (state.status, state.attempt, state.leased) == ("pending", 2, True)


async def test_a_late_success_wins_over_a_waiting_claim(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    (delivery,) = await add_due(database, tenant, webhook)
    (lapsed,) = await steps.claim(lease=0.0)
    async with database.transaction() as connection:
        store = AttemptStore(database, connection)
        assert await store.record_successes([make_record(lapsed, *OK)], 10)
        claiming = asyncio.create_task(steps.claim())
        await until_blocked(database)
    assert await claiming == []
    assert (await look_at(database, delivery)).status == "succeeded"


async def test_a_success_to_a_healthy_endpoint_writes_only_its_delivery(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    version = "SELECT xmin::text AS version FROM endpoints WHERE id = $1"
    (first,) = await steps.take(await add_event(database, tenant))  # its lease needs a check
    before = await database.fetch(version, webhook)
    claims = await steps.take(await add_event(database, tenant))
    assert await steps.record([first, *claims], OK) == [True, True]
    assert await database.fetch(version, webhook) == before
    assert await database.fetch("SELECT 1 FROM attempts") == []
    assert 0 < ((await examine(database, webhook)).next or 0) <= LEASE


async def test_a_success_to_a_healthy_endpoint_waits_for_no_lock_on_it(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    await add_due(database, tenant, webhook)
    claims = await steps.claim()
    async with database.transaction() as connection:
        await lock_endpoints(connection, [webhook])
        assert await asyncio.wait_for(steps.record(claims, OK), DEADLINE) == [True]


async def test_a_success_does_not_wait_for_a_failure(database: Database, tenant: UUID, steps: Steps) -> None:
    failing, healthy = [(await subscribe(database, tenant)).id for _ in range(2)]
    claims = {}
    for webhook in (failing, healthy):
        await add_due(database, tenant, webhook)
        (claims[webhook],) = await steps.claim()
    async with database.transaction() as connection:
        await lock_endpoints(connection, [failing])
        recording = asyncio.create_task(steps.record([claims[failing]], FAILED))
        await until_blocked(database)
        assert await asyncio.wait_for(steps.record([claims[healthy]], OK), DEADLINE) == [True]
        assert not recording.done()
    assert await recording == [True]
