"""The sweeper's loop repeats at once after a full batch and survives outages."""

import asyncio
from typing import Any

import pytest

from common import ids
from common.errors import DatabaseUnavailable
from common.rabbitmq.change_publisher import ChangePublisher
from services.dispatcher.maintenance.lapsed_leases import LapsedLeases, LeaseGrace
from services.dispatcher.maintenance.rescuer import Rescuer
from services.dispatcher.maintenance.sweeper import BATCH, Sweeper
from services.dispatcher.results.store import NotStored, ResultStore
from services.dispatcher.sessions.lost_sessions import LostSessions
from services.dispatcher.sessions.session_lock import SessionLock
from services.dispatcher.sessions.store import SessionStore
from tests.support.recorded_wake_ups import RecordedWakeUps
from tests.support.result_recorder import make_recorder
from tests.unit.fake_database import FakeDatabase
from tests.unit.fake_publisher import FakePublisher

HOUR = 3600.0
JOB = ids.new()


class FakeStore(FakeDatabase):
    """Returns this many due jobs at each sweep, None for an outage or another error, then stops the loop."""

    def __init__(self, *due: int | None, error: Exception | None = None) -> None:
        self.due = list(due)
        self.error = error or DatabaseUnavailable()

    async def find_expired(self, limit: int) -> list[Any]:
        return []

    async def find_overdue(self, seconds: float, limit: int) -> list[Any]:
        return []

    async def promote_jobs(self, limit: int) -> list[Any]:
        if not self.due:
            raise asyncio.CancelledError
        count = self.due.pop(0)
        if count is None:
            raise self.error
        return [{"priority": "normal", "model": "echo", "tenant_id": JOB, "id": JOB, "traceparent": ""}] * count

    async def find_suspect(self) -> list[Any]:
        return [{"found": False}]


async def run(store: FakeStore, interval: float) -> int:
    """Return the number of wake-ups."""
    wake_ups, grace, sessions = RecordedWakeUps(), LeaseGrace(0.0, interval), SessionStore(store)
    recorder = make_recorder(store, ResultStore(store), wake_ups, ChangePublisher(FakePublisher()))
    lost = LostSessions(sessions, SessionLock(sessions, 0.0), interval)  # without the lock it finds none
    rescuer = Rescuer(store, recorder, LapsedLeases(store, grace, 0.0), lost, sessions)
    sweeper = Sweeper(store, recorder, wake_ups, grace, rescuer, interval)
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await sweeper.run()
    return len(wake_ups.announced)


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
