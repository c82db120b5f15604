"""A sweeper reclaims the leases of lost dispatchers, but none after an outage of the database."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from common.errors import DatabaseUnavailable
from common.job_states import Status
from common.jobs.job import ClaimedJob, JobToRun
from common.jobs.rescue import Lease
from services.dispatcher.failures import retry_policy
from services.dispatcher.maintenance import sweeper
from services.dispatcher.maintenance.lapsed_leases import LapsedLeases, LeaseGrace
from services.dispatcher.maintenance.rescuer import Rescuer
from services.dispatcher.maintenance.sweeper import Sweeper
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.sessions.lost_sessions import LostSessions
from services.dispatcher.sessions.store import SessionStore
from tests.support.recorded_wake_ups import RecordedWakeUps
from tests.unit.clock import Clock
from tests.unit.dispatcher.jobs import NOW, claimed
from tests.unit.fake_database import FakeDatabase

LEASE = 30.0
INTERVAL = 0.5


class FakeRecorder(ResultRecorder):
    """Records what the sweeper did."""

    def __init__(self) -> None:
        self.stuck: list[JobToRun] = []  # the database does not take their ends
        self.tries: Counter[UUID] = Counter()
        self.failed: list[UUID] = []
        self.canceled: list[UUID] = []

    async def record_failure(self, job: ClaimedJob, outcome: retry_policy.Outcome, at: datetime, trace: str) -> None:
        self.tries[job.id] += 1
        assert isinstance(outcome, retry_policy.Lost)
        assert outcome.failure.code == "worker_lost"
        if job.id in {each.id for each in self.stuck}:
            await asyncio.Event().wait()
        self.failed.append(job.id)

    async def cancel(self, job: ClaimedJob, at: datetime, trace: str) -> None:
        self.canceled.append(job.id)


class FakeSessions(SessionStore):
    def __init__(self) -> None:
        self.forgotten: list[int] = []

    async def forget_models(self, sessions: Sequence[int]) -> None:
        self.forgotten += sessions


class DeadDispatcher(LostSessions):
    """The session of a dispatcher that died, if it left jobs."""

    def __init__(self, world: "World") -> None:
        self._world = world

    async def find(self) -> list[int]:
        return [7] if self._world.orphaned else []


class World(FakeDatabase):
    """A database with leases that are overdue or have lapsed."""

    def __init__(self, *lapsed: JobToRun) -> None:
        self.clock = Clock()
        self.overdue: list[JobToRun] = []
        self.lapsed = list(lapsed)
        self.renewals = 0
        self.orphaned: list[JobToRun] = []
        self.read_only = False
        self.broken = False
        self.hangs = 0.0  # seconds that the next search for lapsed leases takes
        self.recorder, self.wake_ups, sessions = FakeRecorder(), RecordedWakeUps(), FakeSessions()
        self.failed, self.canceled, self.forgotten = self.recorder.failed, self.recorder.canceled, sessions.forgotten
        grace = LeaseGrace(LEASE, INTERVAL, self.clock)
        lapsed_leases = LapsedLeases(self, grace, LEASE, self.clock)
        rescuer = Rescuer(self, self.recorder, lapsed_leases, DeadDispatcher(self), sessions)
        self.sweeper = Sweeper(self, self.recorder, self.wake_ups, grace, rescuer, INTERVAL)

    async def promote_jobs(self, limit: int) -> list[Any]:
        if self.read_only:
            raise DatabaseUnavailable
        if self.broken:
            raise ValueError("a bug")
        return []

    async def find_suspect(self) -> list[Any]:
        return [{"found": False}]

    async def find_overdue(self, seconds: float, limit: int) -> list[Lease]:
        assert seconds == LEASE / 2
        self.clock.now += self.hangs
        self.hangs = 0.0
        until = NOW + timedelta(seconds=self.renewals)
        return [Lease(job.id, until) for job in (*self.lapsed, *self.overdue)]

    async def find_abandoned(self, jobs: Sequence[UUID], limit: int) -> list[Any]:
        return [to_row(job) for job in self.lapsed if job.id in jobs]

    def lapse(self, *jobs: JobToRun) -> None:
        """Let leases lapse that were overdue before."""
        self.overdue, self.lapsed = [job for job in self.overdue if job not in jobs], [*jobs]

    async def find_orphaned(self, sessions: Sequence[int], limit: int) -> list[Any]:
        assert sessions == [7]
        return [to_row(job) for job in self.orphaned]

    async def find_expired(self, limit: int) -> list[Any]:
        return []

    async def pass_by(self, seconds: float) -> None:
        """Sweep every half second for this long."""
        for _ in range(round(seconds / INTERVAL)):
            self.clock.now += INTERVAL
            await self.sweeper.sweep()
            assert self.wake_ups.announced == []


def to_row(job: JobToRun) -> dict[str, object]:
    return msgspec.structs.asdict(job) | {"status": job.status.value, "priority": job.priority.value, "now": NOW}


def list_ids(jobs: Sequence[JobToRun]) -> list[UUID]:
    return [job.id for job in jobs]


@pytest.fixture
async def running() -> AsyncIterator[World]:
    """A sweeper that has run for longer than a lease."""
    world = World()
    await world.pass_by(2 * LEASE)
    yield world
    for end in world.sweeper._ending.values():
        end.cancel()
    await asyncio.gather(*world.sweeper._ending.values(), return_exceptions=True)


async def test_a_lease_that_was_not_renewed_is_reclaimed_when_it_lapses(running: World) -> None:
    running.overdue = [claimed(), claimed(Status.CANCELING)]
    await running.pass_by(LEASE / 2)
    assert (running.failed, running.canceled) == ([], [])
    running.lapse(*running.overdue)
    await running.pass_by(INTERVAL)
    assert (running.failed, running.canceled) == (list_ids(running.lapsed[:1]), list_ids(running.lapsed[1:]))


async def test_a_lease_that_lapses_suddenly_can_be_renewed(running: World) -> None:
    """Such as when the database's clock is set forward. The dispatcher lives."""
    running.lapsed = [claimed()]
    await running.pass_by(LEASE / 2)
    running.lapsed = []
    await running.pass_by(INTERVAL)
    assert running.failed == []


async def test_a_lease_that_lapses_suddenly_is_reclaimed_after_half_of_its_length(running: World) -> None:
    running.lapsed = [claimed()]
    await running.pass_by(LEASE / 2)
    assert running.failed == []
    await running.pass_by(INTERVAL)
    assert running.failed == list_ids(running.lapsed)


async def test_a_renewal_begins_the_time_again(running: World) -> None:
    """Even if the new lease has lapsed before the next look."""
    running.lapsed = [claimed()]
    await running.pass_by(LEASE / 2)
    running.renewals += 1
    await running.pass_by(LEASE / 2)
    assert running.failed == []


async def test_an_end_that_cannot_be_written_delays_no_other(running: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried once, for as long as its try lasts."""
    monkeypatch.setattr(sweeper, "END_SECONDS", 0.01)
    running.recorder.stuck, others = [claimed()], [claimed(), claimed()]
    running.overdue = [*running.recorder.stuck, *others]
    await running.pass_by(LEASE / 2)
    for other in others:
        running.lapse(*running.recorder.stuck, other)
        async with asyncio.timeout(10):
            await running.pass_by(INTERVAL)
    assert running.failed == list_ids(others)
    assert running.recorder.tries[running.recorder.stuck[0].id] == 1


async def test_it_runs_again_after_it_failed_while_ends_went_on(
    running: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "END_SECONDS", 0.01)
    running.lapsed = running.recorder.stuck = [claimed()]
    await running.pass_by(LEASE / 2 + INTERVAL)
    running.broken = True
    with pytest.raises(ValueError, match="a bug"):
        await running.sweeper.run()
    running.broken, running.recorder.stuck = False, []
    await running.pass_by(INTERVAL)
    assert running.failed == list_ids(running.lapsed)


async def test_a_new_sweeper_reclaims_nothing_for_a_lease() -> None:
    world = World(claimed())
    await world.pass_by(LEASE)
    assert world.failed == []
    await world.pass_by(INTERVAL)
    assert world.failed == list_ids(world.lapsed)


async def test_a_new_sweeper_reclaims_the_jobs_of_a_dead_dispatcher_at_once() -> None:
    world = World(job := claimed())
    world.orphaned = [job, claimed(Status.CANCELING)]
    await world.sweeper.sweep()
    assert (world.failed, world.canceled) == (list_ids(world.orphaned[:1]), list_ids(world.orphaned[1:]))
    assert world.forgotten == [7]


async def test_a_job_with_a_lapsed_lease_of_a_dead_dispatcher_is_reclaimed_once(running: World) -> None:
    running.lapsed = running.orphaned = [claimed()]
    await running.sweeper.sweep()
    assert running.failed == list_ids(running.lapsed)


async def test_a_long_outage_costs_no_lease(running: World) -> None:
    running.clock.now += 2 * LEASE
    running.lapsed = [claimed()]
    await running.pass_by(LEASE)
    assert running.failed == []
    await running.pass_by(INTERVAL)
    assert running.failed == list_ids(running.lapsed)


async def test_a_short_outage_delays_nothing(running: World) -> None:
    running.overdue = [claimed()]
    await running.pass_by(LEASE / 2)
    running.clock.now += LEASE / 3 - INTERVAL
    running.lapse(*running.overdue)
    await running.pass_by(INTERVAL)
    assert running.failed == list_ids(running.lapsed)


async def test_a_read_only_server_counts_as_an_outage(running: World) -> None:
    running.read_only = True
    for _ in range(100):
        running.clock.now += INTERVAL
        with pytest.raises(DatabaseUnavailable):
            await running.sweeper.sweep()
    running.lapsed, running.read_only = [claimed()], False
    await running.pass_by(LEASE)
    assert running.failed == []


async def test_a_server_that_hangs_during_a_sweep_costs_no_lease(running: World) -> None:
    running.lapsed, running.hangs = [claimed()], 2 * LEASE
    await running.sweeper.sweep()
    await running.pass_by(LEASE)
    assert running.failed == []


async def test_an_interval_longer_than_a_lease_is_not_an_outage() -> None:
    clock = Clock()
    grace = LeaseGrace(1.0, 60.0, clock)
    grace.note_write()
    clock.now += 60.0
    grace.note_write()
    assert grace.is_over
