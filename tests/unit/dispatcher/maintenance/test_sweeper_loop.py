"""The sweeper's loop repeats at once after a full batch and survives outages."""

import asyncio
from typing import cast

import pytest

from common.errors import DatabaseUnavailable
from common.outbox import Outbox, OutboxRow
from services.dispatcher.maintenance.sweeper import BATCH, LeaseGrace, Sweeper
from services.dispatcher.maintenance.sweeper_store import DueJobs, JobsAtTime, SweeperStore
from services.dispatcher.results.result_recorder import ResultRecorder

HOUR = 3600.0


class FakeStore:
    """Returns this many due jobs at each sweep, None for an outage, then stops the loop."""

    def __init__(self, *due: int | None) -> None:
        self.due = list(due)

    async def find_expired(self, _limit: int) -> JobsAtTime:
        return []

    async def find_abandoned(self, _limit: int) -> JobsAtTime:
        return []

    async def take_due_jobs(self, _limit: int) -> DueJobs:
        if not self.due:
            raise asyncio.CancelledError
        count = self.due.pop(0)
        if count is None:
            raise DatabaseUnavailable
        return DueJobs([cast("OutboxRow", object())] * count, [])


class FakeOutbox:
    def __init__(self) -> None:
        self.announced = 0

    def announce(self, rows: list[OutboxRow]) -> None:
        self.announced += len(rows)


async def run(store: FakeStore, interval: float) -> int:
    """Return the number of wake-ups."""
    outbox = FakeOutbox()
    sweeper = Sweeper(
        cast("SweeperStore", store),
        cast("ResultRecorder", None),
        cast("Outbox", outbox),
        LeaseGrace(0.0, interval),
        interval,
    )
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await sweeper.run()
    return outbox.announced


async def test_it_sweeps_again_at_once_after_a_full_batch() -> None:
    assert await run(FakeStore(BATCH, BATCH), HOUR) == 2 * BATCH


async def test_it_continues_after_an_outage() -> None:
    assert await run(FakeStore(1, None, 2), 0.0) == 3
