"""A clock that is set back is corrected once, by one of the notifiers."""

import asyncio
from uuid import UUID

from common.postgres.database import Database
from services.notifier.maintenance.clock_correction import TOLERANCE_SECONDS, correct_clock
from services.notifier.store.new_deliveries import NewDeliveryStore
from tests.integration.deliveries import add_due, add_event, subscribe
from tests.integration.notifier.steps import Steps

JUMP = 600.0
LEASE = 30.0
SET_BACK = "UPDATE clock SET latest_at = clock_timestamp() + make_interval(secs => $1)"
POSTPONE = "UPDATE deliveries SET created_at = created_at + make_interval(secs => $1)"

DISABLE = """
WITH disabled AS (UPDATE webhooks SET disabled_at = now(), disabled_reason = 'gone')
UPDATE endpoints SET cancel_before = now()
"""


async def test_one_of_several_notifiers_corrects_it(database: Database) -> None:
    await database.fetch(SET_BACK, JUMP)
    found = [
        setback
        for setback in await asyncio.gather(*(correct_clock(database, LEASE) for _ in range(4)))
        if setback is not None
    ]
    assert len(found) == 1
    assert TOLERANCE_SECONDS < found[0] <= JUMP  # less the time since the clock was saved


async def test_a_small_difference_is_tolerated(database: Database) -> None:
    await database.fetch(SET_BACK, TOLERANCE_SECONDS)
    assert await correct_clock(database, LEASE) is None


async def test_a_missed_delivery_from_the_future_is_found(database: Database, tenant: UUID) -> None:
    store = NewDeliveryStore(database)
    await subscribe(database, tenant)
    event = await add_event(database, tenant)
    assert await store.find(60.0, 10) == []
    await database.fetch(POSTPONE, JUMP)
    assert await store.find(60.0, 10) == [(event, "")]


async def test_what_waited_before_its_subscription_was_disabled_is_still_canceled(
    database: Database, tenant: UUID
) -> None:
    webhook = (await subscribe(database, tenant)).id
    await add_due(database, tenant, webhook, 3)
    await database.fetch(DISABLE)
    await database.fetch(SET_BACK, JUMP)
    assert await correct_clock(database, LEASE)
    assert await Steps(database).ended_subscriptions.advance() == 3
