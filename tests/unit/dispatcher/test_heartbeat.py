"""A heartbeat renews what it can, tries the rest again soon, and cancels only what is lost."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import msgspec
import pytest

from common.errors import DatabaseUnavailable
from common.jobs.job import ClaimedJob, ClaimKey
from services.dispatcher import heartbeat as module
from services.dispatcher.heartbeat import Heartbeat
from services.dispatcher.running_job import RunningJob
from tests.unit.dispatcher.jobs import claimed
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
        """Return the claims of the next heartbeat."""
        async with asyncio.timeout(SOON):
            return await self.asked.get()


class World:
    def __init__(self) -> None:
        self.store = FakeStore()
        self.heartbeat = Heartbeat(self.store, HOUR)

    def start(self, job: ClaimedJob) -> RunningJob:
        running = RunningJob(job, asyncio.create_task(asyncio.Event().wait()))  # type: ignore[arg-type]
        self.heartbeat.jobs[running.key] = running
        return running

    @asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.heartbeat.run())
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
    async with world.beating():
        world.heartbeat.request()
        assert await world.store.next() == [locked.key, free.key]
        assert [await world.store.next() for _ in range(3)] == [[locked.key]] * 3
    assert not any(each.task.cancelling() for each in (locked, free) if each.task)


async def test_all_leases_are_tried_again_soon_after_an_outage(world: World, caplog: pytest.LogCaptureFixture) -> None:
    job = world.start(claimed())
    world.store.away = True
    async with world.beating():
        world.heartbeat.request()
        assert [await world.store.next() for _ in range(3)] == [[job.key]] * 3
    assert caplog.text.count("lease.renewal_failed") == 1
    assert job.task is not None
    assert not job.task.cancelling()


async def test_a_locked_job_that_has_ended_is_forgotten(world: World) -> None:
    locked, other = world.start(claimed()), world.start(claimed())
    world.store.locked = {locked.key, other.key}
    async with world.beating():
        world.heartbeat.request()
        assert await world.store.next() == [locked.key, other.key]
        del world.heartbeat.jobs[locked.key]
        while (asked := await world.store.next()) != [other.key]:
            assert asked == [locked.key, other.key]


async def test_only_the_lost_one_of_two_claims_of_a_job_is_cancelled(world: World) -> None:
    job = claimed()
    old, new = world.start(job), world.start(msgspec.structs.replace(job, claim=2))
    world.store.lost = {old.key}
    async with world.beating():
        world.heartbeat.request()
        assert await world.store.next() == [old.key, new.key]
        assert old.task is not None
        async with asyncio.timeout(SOON):
            await asyncio.wait([old.task])
    assert new.task is not None
    assert (old.task.cancelled(), new.task.cancelling()) == (True, 0)
