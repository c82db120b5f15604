"""A canceled batch ends: its jobs are canceled page after page, by whichever gateway does that work then."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from common import ids
from common.job_states import Status
from common.jobs.end import end_jobs
from common.jobs.job import Job
from common.postgres.database import Database
from common.views.job import JobUrls
from services.gateway.batches import canceler as canceler_module
from services.gateway.batches.canceler import BatchCanceler
from services.gateway.batches.store import BatchStore, NewBatch
from services.gateway.jobs.actions.cancel import Canceler
from tests.integration.job_actions import new_canceler
from tests.integration.jobs import TRACEPARENT, add_tenant, claim, new_end, new_job, submit
from tests.integration.world import World
from tests.support.carrier import GATEWAY_CARRIER


@pytest.fixture
def world(database: Database, tenant: UUID) -> World:
    return World(database, tenant)


@pytest.fixture
def store(database: Database) -> BatchStore:
    return BatchStore(database)


@pytest.fixture
def jobs_canceler(world: World) -> Canceler:
    return new_canceler(world.database, world.wake_ups, world.changes)


@pytest.fixture
def canceler(store: BatchStore, jobs_canceler: Canceler) -> BatchCanceler:
    return BatchCanceler(store, jobs_canceler)


async def add(store: BatchStore, tenant: UUID, count: int) -> tuple[UUID, list[UUID]]:
    batch_id = ids.new()
    jobs = [new_job(tenant, batch_id=batch_id, max_attempts=1) for _ in range(count)]
    assert await store.add(NewBatch(batch_id, tenant, count, count, TRACEPARENT), jobs) is not None
    return batch_id, [job.id for job in jobs]


async def test_jobs_that_have_not_ended_are_canceled(world: World, store: BatchStore, canceler: BatchCanceler) -> None:
    batch, (ended, running, *queued) = await add(store, world.tenant, 4)
    other = await submit(world.database, world.tenant)
    await end_jobs(world.database, [new_end(await claim(world.database, ended), Status.SUCCEEDED)])
    await claim(world.database, running)
    assert await canceler.sweep() == 0  # nobody has canceled it
    assert await store.cancel(batch, world.tenant)
    assert await canceler.sweep() == 1 + len(queued)
    assert await store.count_jobs(batch) == {"succeeded": 1, "canceling": 1, "canceled": len(queued)}
    assert await canceler.sweep() == 0  # its dispatcher ends the running job
    assert await world.database.fetch("SELECT FROM jobs WHERE id = $1 AND status = 'queued'", other)
    row = await store.find(batch, world.tenant)
    assert row is not None
    assert row.canceled_at is not None


async def test_a_second_cancel_keeps_the_time_of_the_first(world: World, store: BatchStore) -> None:
    batch, _ = await add(store, world.tenant, 1)
    assert await store.cancel(batch, world.tenant)
    first = await store.find(batch, world.tenant)
    assert await store.cancel(batch, world.tenant)
    assert await store.find(batch, world.tenant) == first


async def test_a_completed_batch_and_that_of_another_tenant_are_left_alone(world: World, store: BatchStore) -> None:
    batch, _ = await add(store, world.tenant, 1)
    assert not await store.cancel(batch, await add_tenant(world.database, "stranger"))
    assert not await store.cancel(ids.new(), world.tenant)
    await world.database.fetch("UPDATE batches SET finished_at = now()")
    assert not await store.cancel(batch, world.tenant)
    row = await store.find(batch, world.tenant)
    assert row is not None
    assert row.canceled_at is None


async def test_tenants_take_turns(
    world: World, store: BatchStore, canceler: BatchCanceler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither many batches nor many jobs of one tenant hold up another one."""
    monkeypatch.setattr(canceler_module, "PAGE", 2)
    stranger = await add_tenant(world.database, "stranger")
    batches = [(await add(store, world.tenant, 5))[0] for _ in range(2)]
    theirs, _ = await add(store, stranger, 2)
    for batch in batches:
        assert await store.cancel(batch, world.tenant)
    assert await store.cancel(theirs, stranger)
    assert await canceler.sweep() == 4
    assert await store.count_jobs(theirs) == {"canceled": 2}
    assert [await canceler.sweep() for _ in range(6)] == [2, 1, 2, 2, 1, 0]


class Racing(Canceler):
    """Ends each job before it cancels it."""

    async def cancel(self, tenant_id: UUID, job_id: UUID) -> Job:
        await end_jobs(self._database, [new_end(await claim(self._database, job_id), Status.SUCCEEDED)])
        return await super().cancel(tenant_id, job_id)


async def test_a_job_that_ends_meanwhile_is_no_error(world: World, store: BatchStore) -> None:
    racing = Racing(world.database, world.wake_ups, world.changes, JobUrls(), GATEWAY_CARRIER)
    batch, _ = await add(store, world.tenant, 1)
    assert await store.cancel(batch, world.tenant)
    assert await BatchCanceler(store, racing).sweep() == 0
    assert await store.count_jobs(batch) == {"succeeded": 1}


async def list_states(database: Database, jobs: Sequence[UUID]) -> list[str]:
    found = await database.fetch("SELECT id, status FROM jobs WHERE id = ANY($1)", jobs)
    return [record["status"] for record in found]


async def test_a_gateway_that_dies_leaves_the_rest_to_the_next(
    world: World, store: BatchStore, jobs_canceler: Canceler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canceler_module, "PAGE", 2)
    batch, jobs = await add(store, world.tenant, 5)
    assert await store.cancel(batch, world.tenant)
    await BatchCanceler(store, jobs_canceler).sweep()
    assert sorted(await list_states(world.database, jobs)) == ["canceled"] * 2 + ["queued"] * 3
    other = BatchCanceler(store, jobs_canceler)
    while await other.sweep():
        pass
    assert set(await list_states(world.database, jobs)) == {"canceled"}
