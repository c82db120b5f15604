"""Due jobs become claimable. Suspected poison jobs run one at a time where one crash could hit two of them."""

import asyncio
from uuid import UUID

import pytest

from common.job_states import Status
from common.jobs.end import end_jobs
from common.jobs.job import JobToRun
from common.jobs.promote import LOCK, STATEMENTS, promote_jobs
from common.jobs.renew import renew_leases
from common.jobs.requeue import requeue_jobs
from common.postgres.database import Database
from services.dispatcher.failures.retry_policy import MAX_INTERRUPTIONS, PROBATION_SECONDS
from services.dispatcher.models.store import ModelStore
from services.dispatcher.triton.model_version import ModelVersion
from tests.integration.jobs import (
    LEASE,
    add_tenant,
    look,
    make_due,
    new_end,
    new_requeue,
    promote_suspect,
    submit,
    take,
)
from tests.integration.stores import Stores
from tests.integration.waiting import until_blocked
from tests.integration.world import World

SUSPECT = """
UPDATE jobs SET interruptions = 3, probation = $1, run_at = now(), scheduled_at = now() WHERE id = ANY($2::uuid[])
"""
TAKES_LONG = "UPDATE jobs SET started_at = started_at - make_interval(secs => $1::double precision) WHERE id = $2"
PAUSE_MODEL = "INSERT INTO model_limits (model, paused_at) VALUES ('echo', now())"
PAUSE_TENANT = "UPDATE tenants SET paused_at = now() WHERE name <> 'neighbour'"
KILLED = 7  # the session of a dispatcher that a job killed


@pytest.fixture
def stores(database: Database) -> Stores:
    return Stores(database)


async def suspect(database: Database, tenant: UUID, count: int = 1, model: str = "echo") -> list[UUID]:
    """Submit jobs that are suspected and due."""
    jobs = [await submit(database, tenant, model=model) for _ in range(count)]
    await database.fetch(SUSPECT, PROBATION_SECONDS, jobs)
    return jobs


async def serve(database: Database, worker: str, *models: str, ready: bool = True) -> None:
    versions = [ModelVersion(name, "1", False, 0, 1, [], []) for name in models]
    await ModelStore(database, worker).save_models([(version, True) for version in versions])
    if not ready:
        await ModelStore(database, worker).save_models([(version, False) for version in versions])


async def test_one_suspect_of_a_model_runs_at_a_time(database: Database, stores: Stores, tenant: UUID) -> None:
    await suspect(database, tenant, 3)
    assert len(await promote_suspect(database)) == 1
    assert await promote_suspect(database) == []
    (running,) = await take(database, 4)
    assert await promote_suspect(database) == []
    await requeue_jobs(database, [new_requeue(running)])
    assert len(await promote_suspect(database)) == 1
    (again,) = await take(database, 4, worker="another")
    assert await promote_suspect(database) == []
    await end_jobs(database, [new_end(again)])
    assert len(await promote_suspect(database)) == 1


async def test_a_suspect_delays_no_other_job(database: Database, stores: Stores, tenant: UUID) -> None:
    await suspect(database, tenant, 2)
    other = await submit(database, tenant)
    await make_due(database, other)
    assert len(await promote_suspect(database)) == 1
    assert len(await promote_jobs(database, 10)) == 1
    assert other in {job.id for job in await take(database, 4)}


async def test_suspects_on_separate_dispatchers_run_at_once(database: Database, stores: Stores, tenant: UUID) -> None:
    await serve(database, "first", "echo")
    await serve(database, "second", "other")
    await suspect(database, tenant)
    await suspect(database, tenant, model="other")
    assert len(await promote_suspect(database)) == 1
    assert len(await promote_suspect(database)) == 1


async def test_suspects_on_one_dispatcher_take_turns(database: Database, stores: Stores, tenant: UUID) -> None:
    """One crash could hit both, though their models differ."""
    await serve(database, "first", "echo", "between")
    await serve(database, "second", "other", "echo")
    await suspect(database, tenant)
    await suspect(database, tenant, model="other")
    assert len(await promote_suspect(database)) == 1
    assert await promote_suspect(database) == []


@pytest.mark.parametrize("scheduled", [True, False])
async def test_a_suspect_of_a_model_that_is_away_blocks_no_other(
    database: Database, stores: Stores, tenant: UUID, scheduled: bool
) -> None:
    await serve(database, "w", "echo", "other")
    await suspect(database, tenant)
    if not scheduled:
        assert [wake_up.routing_key for wake_up in await promote_suspect(database)] == ["job.normal.echo"]
    await serve(database, "w", "echo", ready=False)
    await suspect(database, tenant, model="other")
    assert [wake_up.routing_key for wake_up in await promote_suspect(database)] == ["job.normal.other"]


@pytest.mark.parametrize("scheduled", [True, False])
@pytest.mark.parametrize("pause", [PAUSE_MODEL, PAUSE_TENANT])
async def test_a_paused_suspect_blocks_no_other(
    database: Database, stores: Stores, tenant: UUID, pause: str, scheduled: bool
) -> None:
    await serve(database, "w", "echo", "other")
    await suspect(database, tenant)
    if not scheduled:
        assert len(await promote_suspect(database)) == 1
    await database.fetch(pause)
    assert await promote_suspect(database) == []
    await suspect(database, await add_tenant(database, "neighbour"), model="other")
    assert [wake_up.routing_key for wake_up in await promote_suspect(database)] == ["job.normal.other"]


async def test_a_suspect_whose_tenant_is_paused_lets_others_of_its_model_go(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    (paused,) = await suspect(database, tenant)
    assert len(await promote_suspect(database)) == 1
    await database.fetch(PAUSE_TENANT)
    (other,) = await suspect(database, await add_tenant(database, "neighbour"))
    assert len(await promote_suspect(database)) == 1
    (running,) = await take(database, 2)
    assert running.id == other
    await database.fetch("UPDATE tenants SET paused_at = NULL")
    assert await promote_suspect(database) == []
    await end_jobs(database, [new_end(running)])
    assert len(await promote_suspect(database)) == 1
    assert [job.id for job in await take(database, 2)] == [paused]


async def test_a_suspect_whose_model_comes_back_runs_beside_no_other(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    """After a crash Triton loads one model after the other."""
    await serve(database, "w", "echo", "other")
    await suspect(database, tenant)
    assert len(await promote_suspect(database)) == 1
    await serve(database, "w", "echo", ready=False)
    await suspect(database, tenant, model="other")
    assert len(await promote_suspect(database)) == 1
    (running,) = await take(database, 1, model="other")
    await serve(database, "w", "echo")
    assert await take(database, 1) == []
    await end_jobs(database, [new_end(running)])
    assert len(await promote_suspect(database)) == 1
    assert len(await take(database, 1)) == 1


async def test_a_paused_suspect_that_runs_blocks_others(database: Database, stores: Stores, tenant: UUID) -> None:
    await serve(database, "w", "echo", "other")
    await suspect(database, tenant)
    await promote_suspect(database)
    assert len(await take(database, 1)) == 1
    await database.fetch(PAUSE_MODEL)
    await suspect(database, tenant, model="other")
    assert await promote_suspect(database) == []


async def test_a_tenant_with_many_suspects_does_not_keep_others_waiting(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    await suspect(database, tenant, 100)
    (other,) = await suspect(database, await add_tenant(database, "other"))
    turns = 0
    while (await look(database, other)).status is not Status.SUCCEEDED:
        turns += 1
        assert turns < 40  # the chance of so many is one in 10^12
        await promote_suspect(database)
        await end_jobs(database, [new_end(job) for job in await take(database, 2)])


async def test_concurrent_sweepers_promote_one_suspect(database: Database, stores: Stores, tenant: UUID) -> None:
    """The second one does not wait for the first, and due jobs do not wait for either."""
    await serve(database, "w", "echo", "other")
    await suspect(database, tenant)
    await suspect(database, tenant, model="other")
    due = await submit(database, tenant)
    await make_due(database, due)
    async with asyncio.timeout(10), database.transaction() as first:
        (lock,) = await STATEMENTS["lock_promotion"].run(first, lock=LOCK)
        assert lock["locked"]
        assert len(await STATEMENTS["promote_suspect"].run(first)) == 1
        assert await promote_suspect(database) == []
        assert len(await promote_jobs(database, 10)) == 1
    assert await promote_suspect(database) == []


async def test_a_suspect_that_is_canceled_meanwhile_stays_canceled(database: Database, tenant: UUID) -> None:
    world = World(database, tenant)
    (job,) = await suspect(database, tenant)
    async with database.transaction() as canceling:
        await canceling.execute(
            "UPDATE jobs SET status = 'canceled', generation = 1, finished_at = now(), scheduled_at = NULL "
            "WHERE id = $1",
            job,
        )
        promoting = asyncio.create_task(promote_suspect(world.database))
        await until_blocked(database)
    assert await promoting == []
    assert (await look(database, job)).status is Status.CANCELED


async def test_a_renewal_ends_the_probation_of_a_survivor(database: Database, tenant: UUID) -> None:
    await suspect(database, tenant, 2)
    await promote_suspect(database)
    (long,) = await take(database, 2)
    claim = (long.id, long.claim)
    await renew_leases(database, [claim], LEASE)
    assert await promote_suspect(database) == []
    await database.fetch(TAKES_LONG, PROBATION_SECONDS, long.id)
    assert await promote_suspect(database) == []  # it may have died since its last renewal
    await renew_leases(database, [claim], LEASE)
    assert len(await promote_suspect(database)) == 1


async def test_a_job_that_kills_dispatchers_fails_and_no_other_does(database: Database, tenant: UUID) -> None:
    world = World(database, tenant)
    await world.begin()
    killer, *others = [await submit(database, tenant, max_attempts=1) for _ in range(11)]
    kills = 0
    for _ in range(30):
        await world.sweep()
        running = await world.answer(await world.find_lost_wake_ups(), KILLED)
        kills += await end_or_kill(world, running, killer)
    assert kills == MAX_INTERRUPTIONS + 1
    ends = [await look(database, job) for job in (killer, *others)]
    assert [(end.status, end.attempt) for end in ends] == [(Status.FAILED, 1)] + [(Status.SUCCEEDED, 1)] * 10
    assert ends[0].error_code == "worker_lost"


async def end_or_kill(world: World, running: list[JobToRun], killer: UUID) -> bool:
    """End the running jobs, unless the killer is among them. Then a sweeper finds that their dispatcher died."""
    if killer not in {job.id for job in running}:
        for job in running:
            await world.act(job, "succeed")
        return False
    await world.sweep()
    await world.pass_time(3.0)
    await world.sweep()
    return True
