"""A claimed job on a real Triton, and what reaches it while it runs."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from common import tensors
from common.database import Database
from common.jobs import Priority, Status
from common.messages import CancelJob, JobQueued
from services.dispatcher.catalogue import Catalogue, Runnable
from services.dispatcher.listeners import Listeners
from services.dispatcher.run import Runner
from services.dispatcher.triton import Triton
from tests.integration.dispatcher.asking import integer
from tests.integration.jobs import LEASE, TRACEPARENT, JobState, lapse, look, submit
from tests.integration.waiting import until, until_blocked
from tests.integration.world import World

SOON = LEASE / 6  # seconds: half of the time between two heartbeats that nobody asks for
LONG = 30_000  # ms


class Bench:
    """A dispatcher without a broker, and jobs for it."""

    def __init__(self, world: World, triton: Triton, model: Runnable) -> None:
        self.world, self.triton, self.model = world, triton, model
        self.runner = self.make_runner(LEASE)

    def make_runner(self, lease: float) -> Runner:
        world = self.world
        parts = self.triton, world.store, world.recorder, world.recorder.bell, Listeners()
        return Runner(*parts, worker="w", lease=lease)

    async def submit(self, ms: int) -> UUID:
        """A job that takes so long."""
        packed = tensors.pack([integer("ms", ms, (1, 1))])
        return await submit(self.world.database, self.world.tenant, model="work", tensors=packed, timeout=60.0)

    async def handle(self, job: UUID) -> None:
        await self.runner.handle(self.model, Priority.NORMAL, JobQueued(job), TRACEPARENT)

    async def start(self, ms: int) -> UUID:
        """A job that Triton works on, for so long."""
        await self.handle(job := await self.submit(ms))
        await until(lambda: any(each.inference for each in self.runner.running.values()), "Triton is asked")
        return job

    async def look(self, job: UUID) -> JobState:
        return await look(self.world.database, job)

    async def let_go(self) -> None:
        """Returns once nothing runs any more, long before it would have by itself."""
        await until(lambda: not self.runner.running, "nothing runs any more", SOON)
        assert (self.model.slots.used, self.model.slots.settling) == (0, 0)


@pytest.fixture
async def bench(database: Database, tenant: UUID, client: Triton) -> AsyncIterator[Bench]:
    async def adopt(_model: Runnable) -> None:
        """Nothing: there is no broker."""

    world = World(database, tenant)
    catalogue = Catalogue(client, world.store, adopt, interval=60.0, slots=0, grace=60.0)
    assert await catalogue.look()
    bench = Bench(world, client, catalogue.models["work"])
    beating = asyncio.create_task(bench.runner.renew())
    yield bench
    beating.cancel()
    await bench.runner.stop(0)
    await asyncio.wait([beating])


async def test_a_cancel_reaches_the_inference_without_waiting_for_a_heartbeat(bench: Bench) -> None:
    job = await bench.start(LONG)
    assert await bench.world.cancel(job) is Status.CANCELING
    await bench.runner.take_control(CancelJob(job), None)
    await bench.let_go()
    assert (await bench.look(job)).status is Status.CANCELED


async def test_a_cancel_whose_message_is_lost_comes_with_the_next_heartbeat(bench: Bench) -> None:
    bench.runner = bench.make_runner(1.0)
    job = await bench.start(LONG)
    assert await bench.world.cancel(job) is Status.CANCELING
    beating = asyncio.create_task(bench.runner.renew())
    await bench.let_go()
    beating.cancel()
    assert (await bench.look(job)).status is Status.CANCELED


async def test_the_late_message_of_an_earlier_cancel_cancels_nothing(bench: Bench) -> None:
    job = await bench.submit(1000)
    assert await bench.world.cancel(job) is Status.CANCELED
    assert await bench.world.retry(job) == {job}
    await bench.handle(job)
    await bench.runner.take_control(CancelJob(job), None)
    await bench.let_go()
    assert (await bench.look(job)).status is Status.SUCCEEDED


async def test_heartbeats_keep_the_lease_for_longer_than_its_length(bench: Bench) -> None:
    bench.runner = bench.make_runner(1.0)
    job = await bench.start(LONG)
    first = (await bench.look(job)).lease_until
    assert first is not None
    beating = asyncio.create_task(bench.runner.renew())

    async def outlived() -> bool:
        state = await bench.look(job)
        return state.lease_until is not None and state.now > first and state.lease_until > state.now

    await until(outlived, "the lease holds after the time that it was given for")
    beating.cancel()
    assert (await bench.look(job)).claim == 1


async def test_who_has_lost_its_claim_lets_go(bench: Bench) -> None:
    job = await bench.start(LONG)
    await lapse(bench.world.database, job)
    await bench.world.sweep()
    assert (await bench.look(job)).status is Status.QUEUED
    bench.runner.beat.set()
    await bench.let_go()
    state = await bench.look(job)
    assert (state.status, state.attempt, state.error_code) == (Status.QUEUED, 1, "worker_lost")


async def test_what_does_not_end_within_the_grace_is_handed_back_uncounted(bench: Bench) -> None:
    job = await bench.start(LONG)
    await bench.runner.stop(0.1)
    state = await bench.look(job)
    assert (state.status, state.attempt, state.claim) == (Status.QUEUED, 0, 1)
    assert (state.error_code, state.interruptions) == ("worker_stopped", 0)
    await bench.world.sweep()
    ((claimed,), (attempt,)) = (
        await bench.world.claim([job]),
        await bench.world.control.store.list_attempts(job, bench.world.tenant),
    )
    assert (claimed.row.attempt, claimed.claim) == (1, 2)
    assert (attempt.status, attempt.error_code) == ("returned", "worker_stopped")


async def test_a_message_is_not_done_with_before_its_claim_is_committed(bench: Bench) -> None:
    job = await bench.submit(1)
    async with bench.world.database.transaction() as other:
        await other.execute("LOCK TABLE jobs IN SHARE MODE")
        handling = asyncio.create_task(bench.handle(job))
        await until_blocked(bench.world.database)
        assert not handling.done()
    await handling
    assert (await bench.look(job)).claim == 1
    await bench.let_go()


async def test_a_success_lets_one_more_run_at_once(bench: Bench) -> None:
    slots = bench.model.slots
    slots.limit = 1.0
    await bench.start(1)
    await bench.let_go()
    assert slots.limit == 2.0


async def test_the_next_begins_while_a_result_is_written_down(bench: Bench) -> None:
    bench.model.slots.resize(1)
    first = await bench.start(100)
    async with bench.world.database.transaction() as other, asyncio.timeout(SOON):
        await other.fetch("SELECT FROM jobs WHERE id = $1 FOR UPDATE", first)
        second = await bench.submit(1)
        await bench.handle(second)
    await bench.let_go()
    assert [(await bench.look(job)).status for job in (first, second)] == [Status.SUCCEEDED] * 2
