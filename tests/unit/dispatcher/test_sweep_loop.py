"""The loop that sweeps."""

import asyncio
from datetime import datetime
from typing import cast

import pytest

from common.errors import DatabaseUnavailable
from common.outbox import Outbox, OutboxRow
from services.dispatcher.record import Recorder
from services.dispatcher.store import ClaimedJob, Due, Store
from services.dispatcher.sweep import BATCH, Grace, Sweeper

HOUR = 3600.0


class FakeStore:
    """So many jobs are to be rung for at each look, None for an outage; then it stops the loop."""

    def __init__(self, *due: int | None) -> None:
        self.due = list(due)

    async def find_expired(self, _limit: int) -> list[tuple[ClaimedJob, datetime]]:
        return []

    async def find_abandoned(self, _limit: int) -> list[tuple[ClaimedJob, datetime]]:
        return []

    async def ring_due(self, _limit: int) -> Due:
        if not self.due:
            raise asyncio.CancelledError
        count = self.due.pop(0)
        if count is None:
            raise DatabaseUnavailable
        return Due([cast("OutboxRow", object())] * count, [])


class FakeOutbox:
    def __init__(self) -> None:
        self.announced = 0

    def announce(self, rows: list[OutboxRow]) -> None:
        self.announced += len(rows)


async def run(store: FakeStore, interval: float) -> int:
    """The doorbells rung."""
    outbox = FakeOutbox()
    sweeper = Sweeper(
        cast("Store", store), cast("Recorder", None), cast("Outbox", outbox), Grace(0.0, interval), interval
    )
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await sweeper.run()
    return outbox.announced


async def test_after_a_full_batch_it_looks_again_at_once() -> None:
    assert await run(FakeStore(BATCH, BATCH), HOUR) == 2 * BATCH


async def test_it_goes_on_after_an_outage() -> None:
    assert await run(FakeStore(1, None, 2), 0.0) == 3
