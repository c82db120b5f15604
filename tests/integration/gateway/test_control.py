"""What clients do to jobs after they were accepted."""

from datetime import timedelta
from uuid import UUID

import pytest

from common.database import Database
from common.jobs import Status
from tests.integration.jobs import claim, look, submit
from tests.integration.world import World


@pytest.fixture
def world(database: Database, tenant: UUID) -> World:
    return World(database, tenant)


async def test_what_was_found_in_an_earlier_life_does_not_end_the_new_one(world: World) -> None:
    job = await submit(world.database, world.tenant, expires_in=10.0)
    await world.pass_time(20.0)
    ((found, now),) = await world.store.find_expired(10)  # by a sweeper that is slow to act on it
    assert await world.cancel(job) is Status.CANCELED
    assert await world.retry(job) == {job}
    await world.recorder.expire(found, now)
    state = await look(world.database, job)
    assert (state.status, state.expires_at, state.attempt) == (Status.QUEUED, None, 0)
    assert (await claim(world.database, job)).row.attempt == 1


async def test_a_job_that_begins_anew_is_rung_for_at_once_and_again_after_a_minute(world: World) -> None:
    job = await submit(world.database, world.tenant)
    await world.cancel(job)
    await world.take_doorbells()
    await world.retry(job)
    state = await look(world.database, job)
    assert state.ring_at is not None
    assert abs(state.ring_at - state.now - timedelta(minutes=1)) < timedelta(seconds=10)
    assert await world.take_doorbells() == [job]
