"""Several notifiers take new deliveries, and may die: each delivery is taken once, and none is forgotten."""

import asyncio
from uuid import UUID

import pytest

from common.postgres.database import Database
from services.notifier.endpoints.store import lock_endpoints
from services.notifier.new_deliveries.store import NewDeliveryStore
from tests.integration.deliveries import CALLBACK, add_due, add_event, examine, subscribe
from tests.integration.notifier.steps import LEASE, OK, Steps
from tests.integration.waiting import DEADLINE

CONCURRENCY = 3


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database, endpoint_concurrency=CONCURRENCY)


async def test_a_delivery_is_taken_once_despite_many_messages(database: Database, tenant: UUID, steps: Steps) -> None:
    await subscribe(database, tenant)
    event = await add_event(database, tenant, **CALLBACK)
    found = await asyncio.gather(*(steps.take(event) for _ in range(4)))
    taken = [claim.id for claims in found for claim in claims]  # by one notifier or two
    assert len(taken) == len(set(taken)) == 2
    assert await steps.take(event) == []
    assert await steps.claim() == []


async def test_a_delivery_that_another_notifier_takes_is_left_to_it(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    await subscribe(database, tenant)
    event = await add_event(database, tenant)
    async with database.transaction() as connection:
        other = NewDeliveryStore(connection)
        assert len((await other.claim({event: ""}, 10, LEASE, CONCURRENCY)).claims) == 1
        async with asyncio.timeout(DEADLINE):
            assert await steps.take(event) == []


async def test_no_lock_on_an_endpoint_delays_new_deliveries(database: Database, tenant: UUID, steps: Steps) -> None:
    """Neither those of other endpoints, nor its own. Those that wait for room are claimed after the lock."""
    full, free = [(await subscribe(database, tenant)).id for _ in range(2)]
    await add_due(database, tenant, full, CONCURRENCY)
    running = await steps.claim()
    event = await add_event(database, tenant)
    async with database.transaction() as connection, asyncio.timeout(DEADLINE):
        await lock_endpoints(connection, [full, free])
        assert [claim.endpoint_id for claim in await steps.take(event)] == [free]
        assert await steps.record(running, OK) == [True] * CONCURRENCY
        assert await steps.claim() == []
    assert [claim.endpoint_id for claim in await steps.claim()] == [full]


async def test_a_deleted_endpoint_is_forgotten(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant, rate_limit=1)).id
    await steps.take(await add_event(database, tenant))
    await database.fetch("DELETE FROM webhooks WHERE id = $1", webhook)
    assert await steps.claim() == []
    assert steps.due.take() == set()


async def test_endpoints_that_nobody_checks_are_found(database: Database, tenant: UUID, steps: Steps) -> None:
    """A notifier died after it scheduled their deliveries."""
    webhooks = [(await subscribe(database, tenant)).id for _ in range(4)]
    empty, checked, unchecked, late = webhooks
    for webhook in (checked, unchecked, late):
        await add_due(database, tenant, webhook, 2)
    await database.fetch("UPDATE endpoints SET next_at = NULL WHERE id = $1", unchecked)
    await database.fetch("UPDATE endpoints SET next_at = now() + interval '2 minutes' WHERE id = $1", late)
    assert await steps.new.check_missed_endpoints(LEASE) == 2
    assert await steps.new.check_missed_endpoints(LEASE) == 0
    assert {claim.endpoint_id for claim in await steps.claim()} == {checked, unchecked, late}
    assert (await examine(database, empty)).next is None
