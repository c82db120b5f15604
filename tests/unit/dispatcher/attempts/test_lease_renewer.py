"""A dispatcher renews what it can, tries the rest again soon, and cancels only what is lost."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import msgspec
import pytest

from common.errors import DatabaseUnavailable
from common.jobs.job import ClaimKey, JobToRun
from services.dispatcher.attempts import lease_renewer as module
from services.dispatcher.attempts.lease_renewer import LeaseRenewer
from services.dispatcher.attempts.running_job import RunningJob, RunningJobs
from tests.unit.dispatcher.jobs import claimed, make_running
from tests.unit.fake_database import FakeDatabase

HOUR = 3600.0  # a lease
SOON = 10.0  # seconds


class FakeStore(FakeDatabase):
    """Renews the leases of all claims but the `lost` ones. Those of `locked` jobs cannot be renewed yet."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[list[ClaimKey]] = asyncio.Queue()
        self.locked: set[ClaimKey] = set()
        self.lost: set[ClaimKey] = set()
        self.away = False

    async def renew_leases(
        self, claims_id: Sequence[UUID], claims_claim: Sequence[int], lease: float
    ) -> list[dict[str, Any]]:
        assert lease == HOUR
        keys = [*zip(claims_id, claims_claim, strict=True)]
        self.asked.put_nowait(keys)
        if self.away:
            raise DatabaseUnavailable
        return [
            {"id": key[0], "claim": key[1], "renewed": key not in self.locked, "canceling": False}
            for key in keys
            if key not in self.lost
        ]

    async def next(self) -> list[ClaimKey]:
        """Return the claims of the next renewal."""
        async with asyncio.timeout(SOON):
            return await self.asked.get()


class World:
    def __init__(self) -> None:
        self.store = FakeStore()
        self.jobs: RunningJobs = {}
        self.renewer = LeaseRenewer(self.store, self.jobs, HOUR)

    def start(self, job: JobToRun) -> RunningJob:
        running = make_running(job)
        running.start(asyncio.sleep(HOUR))
        self.jobs[running.key] = running
        return running

    @asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.renewer.run())
        yield
        running.cancel()
        await asyncio.wait([running])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.01)
    return World()


async def test_a_locked_job_is_tried_again_soon_and_alone(world: World) -> None:
    locked, free = world.start(claimed()), world.start(claimed())
    world.store.locked = {locked.key}
    async with world.renewing():
        world.renewer.request()
        assert await world.store.next() == [locked.key, free.key]
        assert [await world.store.next() for _ in range(3)] == [[locked.key]] * 3
    assert not any(each.task.cancelling() for each in (locked, free))


async def test_all_leases_are_tried_again_soon_after_an_outage(world: World, caplog: pytest.LogCaptureFixture) -> None:
    job = world.start(claimed())
    world.store.away = True
    async with world.renewing():
        world.renewer.request()
        assert [await world.store.next() for _ in range(3)] == [[job.key]] * 3
    assert caplog.text.count("lease.renewal_failed") == 1
    assert not job.task.cancelling()


async def test_a_locked_job_that_has_ended_is_forgotten(world: World) -> None:
    locked, other = world.start(claimed()), world.start(claimed())
    world.store.locked = {locked.key, other.key}
    async with world.renewing():
        world.renewer.request()
        assert await world.store.next() == [locked.key, other.key]
        del world.jobs[locked.key]
        while (asked := await world.store.next()) != [other.key]:
            assert asked == [locked.key, other.key]


async def test_only_the_lost_one_of_two_claims_of_a_job_is_cancelled(world: World) -> None:
    job = claimed()
    old, new = world.start(job), world.start(msgspec.structs.replace(job, claim=2))
    world.store.lost = {old.key}
    async with world.renewing():
        world.renewer.request()
        assert await world.store.next() == [old.key, new.key]
        async with asyncio.timeout(SOON):
            await asyncio.wait([old.task])
    assert (old.task.cancelled(), new.task.cancelling()) == (True, 0)
