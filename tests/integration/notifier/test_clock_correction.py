"""A clock that is set back is corrected once, by one of the notifiers."""

import asyncio
from uuid import UUID

from common.postgres.database import Database
from services.notifier.clock_correction import TOLERANCE_SECONDS, correct_clock
from services.notifier.endpoint_mutex import EndpointMutex
from services.notifier.store.fanout import FanoutStore
from tests.support.seed import add_events

JUMP = 600.0
LEASE = 30.0
SET_BACK = "UPDATE clock SET latest_at = latest_at + make_interval(secs => $1)"
POSTPONE = "UPDATE events SET created_at = created_at + make_interval(secs => $1)"


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


async def test_a_missed_event_from_the_future_is_found(database: Database, tenant: UUID) -> None:
    store = FanoutStore(database, EndpointMutex())
    await add_events(database, [tenant])
    assert await store.find_missed_events(60.0, 10) == {}
    await database.fetch(POSTPONE, JUMP)
    assert len(await store.find_missed_events(60.0, 10)) == 1
