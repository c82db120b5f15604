"""Whose leases a sweeper takes away: a dead dispatcher's, and nobody's because the database was away."""

from collections.abc import Sequence
from datetime import datetime
from typing import cast

import pytest

from common.errors import DatabaseUnavailable
from common.jobs import Status
from common.outbox import Outbox, OutboxRow
from services.dispatcher import retry
from services.dispatcher.record import Recorder
from services.dispatcher.store import ClaimedJob, Due, Store
from services.dispatcher.sweep import Grace, Sweeper
from tests.unit.clock import Clock
from tests.unit.dispatcher.jobs import NOW, claimed

LEASE = 30.0
INTERVAL = 0.5


class World:
    """A database with lapsed leases in it, what goes wrong with it, and what the sweeper did."""

    def __init__(self, *lapsed: ClaimedJob) -> None:
        self.clock = Clock()
        self.lapsed = list(lapsed)
        self.read_only = False
        self.hangs = 0.0  # seconds that the next look for lapsed leases takes
        self.settled: list[ClaimedJob] = []
        self.canceled: list[ClaimedJob] = []
        grace = Grace(LEASE, INTERVAL, self.clock)
        mine = cast("Store", self), cast("Recorder", self), cast("Outbox", self)
        self.sweeper = Sweeper(*mine, grace, INTERVAL)

    async def ring_due(self, _limit: int) -> Due:
        if self.read_only:
            raise DatabaseUnavailable
        return Due([], [])

    async def find_abandoned(self, _limit: int) -> list[tuple[ClaimedJob, datetime]]:
        self.clock.now += self.hangs
        self.hangs = 0.0
        return [(job, NOW) for job in self.lapsed]

    async def find_expired(self, _limit: int) -> list[tuple[ClaimedJob, datetime]]:
        return []

    def announce(self, rows: Sequence[OutboxRow]) -> None:
        assert rows == []

    async def settle(self, job: ClaimedJob, outcome: retry.Outcome, _at: datetime, _trace: str) -> None:
        assert outcome.failure.code == "worker_lost"
        self.settled.append(job)

    async def cancel(self, job: ClaimedJob, _at: datetime, _trace: str) -> None:
        self.canceled.append(job)

    async def pass_by(self, seconds: float) -> None:
        """Sweeps every half second for that long."""
        for _ in range(round(seconds / INTERVAL)):
            self.clock.now += INTERVAL
            await self.sweeper.sweep()


@pytest.fixture
async def settled_in() -> World:
    """A sweeper that has been at work for longer than a lease."""
    world = World()
    await world.pass_by(2 * LEASE)
    return world


async def test_a_lapsed_lease_is_taken_at_once_in_quiet_times(settled_in: World) -> None:
    settled_in.lapsed = [claimed(), claimed(Status.CANCELING)]
    await settled_in.sweeper.sweep()
    assert (settled_in.settled, settled_in.canceled) == (settled_in.lapsed[:1], settled_in.lapsed[1:])


async def test_a_sweeper_that_has_just_started_spares_all_for_a_lease() -> None:
    world = World(claimed())
    await world.pass_by(LEASE)
    assert world.settled == []
    await world.pass_by(INTERVAL)
    assert world.settled == world.lapsed


async def test_an_outage_longer_than_a_lease_costs_nobody_his_lease(settled_in: World) -> None:
    settled_in.clock.now += 2 * LEASE
    settled_in.lapsed = [claimed()]
    await settled_in.pass_by(LEASE)
    assert settled_in.settled == []
    await settled_in.pass_by(INTERVAL)
    assert settled_in.settled == settled_in.lapsed


async def test_an_outage_too_short_to_cost_a_lease_delays_nothing(settled_in: World) -> None:
    settled_in.clock.now += LEASE / 3 - INTERVAL
    settled_in.lapsed = [claimed()]
    await settled_in.pass_by(INTERVAL)
    assert settled_in.settled == settled_in.lapsed


async def test_a_server_that_is_read_only_takes_no_heartbeats_either(settled_in: World) -> None:
    settled_in.read_only = True
    for _ in range(100):
        settled_in.clock.now += INTERVAL
        with pytest.raises(DatabaseUnavailable):
            await settled_in.sweeper.sweep()
    settled_in.lapsed, settled_in.read_only = [claimed()], False
    await settled_in.pass_by(LEASE)
    assert settled_in.settled == []


async def test_a_server_that_hangs_in_the_middle_of_a_sweep_costs_nobody_his_lease(settled_in: World) -> None:
    settled_in.lapsed, settled_in.hangs = [claimed()], 2 * LEASE
    await settled_in.sweeper.sweep()
    await settled_in.pass_by(LEASE)
    assert settled_in.settled == []


async def test_sweeps_farther_apart_than_leases_are_long_are_no_outage() -> None:
    clock = Clock()
    grace = Grace(1.0, 60.0, clock)
    grace.note_write()
    clock.now += 60.0
    grace.note_write()
    assert grace.is_over
