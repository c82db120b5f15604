"""A step of the database's clock, or a lock on a job's row, takes no job from a dispatcher that lives."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from common import ids
from common.jobs.job import ClaimedJob, JobToRun
from common.postgres.database import Database
from common.postgres.migrate import migrate
from deploy.local.processes.clock import Clock
from deploy.local.processes.ports import free_ports
from deploy.local.servers.postgres import Postgres
from services.dispatcher.attempts.lease_renewer import LeaseRenewer
from services.dispatcher.attempts.running_job import RunningJob, RunningJobs
from services.dispatcher.attempts.slot import Slot
from services.dispatcher.maintenance.lapsed_leases import LapsedLeases, LeaseGrace
from services.dispatcher.models.served_model import ServedModel
from tests.integration.jobs import add_tenant, claim, look, submit
from tests.integration.waiting import until

LEASE = 9.0
LOCK = "SELECT FROM jobs WHERE id = $1 FOR UPDATE"


class World:
    """A dispatcher that lives, and one that is frozen. Each runs a job. Another process watches their leases."""

    def __init__(self, database: Database, held: JobToRun, frozen: ClaimedJob) -> None:
        self.database, self.held, self.frozen = database, held, frozen
        no_grace = LeaseGrace(0.0, float("inf"))
        self.lapsed_leases = LapsedLeases(database, no_grace, LEASE)
        model = ServedModel("echo", asyncio.Event())
        self.running = RunningJob(held, model, Slot(model, is_probe=False))
        self.running.start(asyncio.sleep(3600.0))
        jobs: RunningJobs = {held.key: self.running}
        self.leases = LeaseRenewer(database, jobs, LEASE)

    async def is_frozen_one_found(self) -> bool:
        found = [job.id for job, _ in await self.lapsed_leases.find(10)]
        assert self.held.id not in found
        return self.frozen.id in found

    async def is_renewed(self) -> bool:
        state = await look(self.database, self.held.id)
        return state.lease_until is not None and state.lease_until > state.now


@pytest.fixture(scope="module")
def clock() -> Iterator[Clock]:
    clock = Clock()
    yield clock
    clock.delete()


@pytest.fixture(scope="module")
async def database(clock: Clock, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Database]:
    """A database whose clock can be set."""
    directory: Path = tmp_path_factory.mktemp("clock")
    with ExitStack() as cleanup:
        server = Postgres(directory, *free_ports(1), durable=False, environment=clock.environment)
        cleanup.callback(server.delete)
        server.start()
        await migrate(server.url)
        pool = await Database.connect(server.url, application="tests")
        yield pool
        await pool.close()


@pytest.fixture
async def world(database: Database) -> AsyncIterator[World]:
    tenant = await add_tenant(database, ids.new().hex)
    held, frozen = [await claim(database, await submit(database, tenant), lease=LEASE) for _ in range(2)]
    world = World(database, held, frozen)
    renewing = asyncio.create_task(world.leases.run())
    yield world
    for task in (renewing, world.running.task):
        task.cancel()
    await asyncio.wait([renewing, world.running.task])
    await database.fetch("DELETE FROM jobs")


async def test_a_clock_that_is_set_forward_takes_no_job_from_a_living_dispatcher(world: World, clock: Clock) -> None:
    clock.jump(round(2 * LEASE))
    assert not await world.is_renewed()
    await until(world.is_frozen_one_found, "the lease of the frozen dispatcher is lost")
    assert await world.is_renewed()
    assert not world.running.task.cancelling()


async def test_a_job_that_was_locked_for_longer_than_its_lease_stays_with_its_dispatcher(world: World) -> None:
    async with world.database.transaction(60.0) as other:
        await other.execute(LOCK, world.held.id)
        await until(world.is_frozen_one_found, "the lease of the frozen dispatcher is lost", 2 * LEASE)
        assert not await world.is_renewed()
    await world.is_frozen_one_found()  # before the dispatcher could renew its own
    await until(world.is_renewed, "the lease is renewed", LEASE / 4)
