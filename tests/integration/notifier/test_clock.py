"""The database's clock is set back: seen once, whoever looks."""

import asyncio
from uuid import UUID

from benchmarks.seed import add_events
from common.database import Database
from services.notifier.clock import TOLERANCE_SECONDS, look
from services.notifier.store import Store

JUMP = 600.0
LEASE = 30.0
SET_BACK = "UPDATE clock SET seen = seen + make_interval(secs => $1)"
POSTPONE = "UPDATE events SET created_at = created_at + make_interval(secs => $1)"


async def test_of_several_notifiers_one_sees_it(database: Database) -> None:
    await database.fetch(SET_BACK, JUMP)
    found = [back for back in await asyncio.gather(*(look(database, LEASE) for _ in range(4))) if back is not None]
    assert len(found) == 1
    assert TOLERANCE_SECONDS < found[0] <= JUMP  # less what has passed since the clock was seen first


async def test_clocks_that_differ_a_little_are_left_alone(database: Database) -> None:
    await database.fetch(SET_BACK, TOLERANCE_SECONDS)
    assert await look(database, LEASE) is None


async def test_an_event_from_the_future_whose_message_was_lost_is_found(database: Database, tenant: UUID) -> None:
    await add_events(database, [tenant])
    assert await Store(database).find_unheard(60.0, 10) == {}
    await database.fetch(POSTPONE, JUMP)
    assert len(await Store(database).find_unheard(60.0, 10)) == 1
