"""A clock that is set back is corrected once, by one of the notifiers."""

import asyncio
from uuid import UUID

from common.postgres.database import Database
from services.notifier.clock_correction import TOLERANCE_SECONDS, correct_clock
from services.notifier.store.new_deliveries import NewDeliveryStore
from tests.integration.deliveries import add_event, subscribe

JUMP = 600.0
LEASE = 30.0
SET_BACK = "UPDATE clock SET latest_at = latest_at + make_interval(secs => $1)"
POSTPONE = "UPDATE deliveries SET created_at = created_at + make_interval(secs => $1)"


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
