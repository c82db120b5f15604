"""The sweeper's loop repeats at once after a full batch and survives outages."""

import asyncio
from datetime import datetime
from typing import Any, cast

import pytest

from common.errors import DatabaseUnavailable
from common.jobs.job import ClaimedJob
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUp, WakeUpPublisher
from services.dispatcher.maintenance.lapsed_leases import LapsedLeases, LeaseGrace
from services.dispatcher.maintenance.rescuer import Rescuer
from services.dispatcher.maintenance.sweeper import BATCH, Sweeper
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.results.store import NotStored
from services.dispatcher.sessions.lost_sessions import LostSessions
from services.dispatcher.sessions.store import SessionStore
from tests.unit.fake_database import FakeDatabase

HOUR = 3600.0


class FakeStore(FakeDatabase):
    """Returns this many due jobs at each sweep, None for an outage or another error, then stops the loop."""

    def __init__(self, *due: int | None, error: Exception | None = None) -> None:
        self.due = list(due)
        self.error = error or DatabaseUnavailable()

    async def find_expired(self, limit: int) -> list[Any]:
        return []

    async def find_overdue(self, seconds: float, limit: int) -> list[Any]:
        return []

    async def find(self) -> list[int]:
        return []

    async def promote_jobs(self, limit: int) -> list[Any]:
        if not self.due:
            raise asyncio.CancelledError
        count = self.due.pop(0)
        if count is None:
            raise self.error
        return [{"priority": "normal", "model": "echo", "traceparent": ""}] * count

    async def expire(self, job: ClaimedJob, at: datetime) -> None:
        """No job expires here."""

    async def find_suspect(self) -> list[Any]:
        return [{"found": False}]


class FakeWakeUps:
    def __init__(self) -> None:
        self.announced = 0

    def announce(self, wake_ups: list[WakeUp]) -> None:
        self.announced += len(wake_ups)


async def run(store: FakeStore, interval: float) -> int:
    """Return the number of wake-ups."""
    wake_ups, grace, recorder = FakeWakeUps(), LeaseGrace(0.0, interval), cast("ResultRecorder", store)
    lapsed, lost = LapsedLeases(store, grace, 0.0), cast("LostSessions", store)
    rescuer = Rescuer(store, recorder, lapsed, lost, cast("SessionStore", store))
    sweeper = Sweeper(cast("Database", store), recorder, cast("WakeUpPublisher", wake_ups), grace, rescuer, interval)
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await sweeper.run()
    return wake_ups.announced


async def test_it_sweeps_again_at_once_after_a_full_batch() -> None:
    assert await run(FakeStore(BATCH, BATCH), HOUR) == 2 * BATCH


async def test_it_continues_after_an_outage() -> None:
    assert await run(FakeStore(1, None, 2), 0.0) == 3


async def test_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    await run(FakeStore(1, None, None, None, 2, None, None), 0.0)
    assert [record.message for record in caplog.records].count("sweeper.database_unavailable") == 2


async def test_it_continues_after_an_end_that_could_not_be_written() -> None:
    """Such as that of a job whose row is locked. The dispatcher has other jobs to run."""
    assert await run(FakeStore(1, None, 2, error=NotStored()), 0.0) == 3
