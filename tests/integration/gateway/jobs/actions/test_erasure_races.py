"""Erasure comes before or after what other services do to the job."""

import asyncio

import pytest

from common import ids
from common.job_states import Status
from common.jobs.end import end_jobs
from common.jobs.erase import erase_job, is_delivering, lock_events
from common.jobs.new_event import NewEvent
from services.dispatcher.results.store import AttemptStart, ResultStore
from services.gateway.http.problems import Problem
from services.gateway.jobs.actions.erasure import Eraser
from services.notifier.delivery_attempts.retry_schedule import Rescheduled
from services.notifier.new_deliveries.store import NewDeliveryStore
from tests.integration.deliveries import look_at
from tests.integration.gateway.jobs.actions.test_erasure import ANSWERED, PAYLOAD, RAW, end, eraser, world
from tests.integration.jobs import TRACEPARENT, claim, new_end, submit
from tests.integration.notifier.steps import LEASE, Steps
from tests.integration.waiting import until_blocked
from tests.integration.world import World

__all__ = ["eraser", "world"]

END_AND_ERASE = """
UPDATE jobs
SET status = 'canceled', generation = 1, finished_at = now(), lease_until = NULL, session = NULL, erased_at = now()
WHERE id = $1
"""


async def test_erasure_waits_for_a_running_delivery(world: World, eraser: Eraser) -> None:
    steps = Steps(world.database)
    job = await submit(world.database, world.tenant, **PAYLOAD)
    await steps.schedule(await end(world.database, job, Status.SUCCEEDED))
    claims = await steps.claim()
    with pytest.raises(Problem) as refused:
        await eraser.erase(world.tenant, job)
    assert (refused.value.status, refused.value.headers) == (409, {"Retry-After": "5"})
    assert (await look_at(world.database, claims[0].id)).leased
    erasing = asyncio.create_task(Eraser(world.database, delivery_wait=20.0).erase(world.tenant, job))
    assert await steps.record(claims, (ANSWERED, Rescheduled(60.0))) == [True]
    assert await erasing


async def test_erasure_waits_for_a_notifier_that_takes_a_delivery(world: World, eraser: Eraser) -> None:
    """It then finds the delivery under way. Otherwise it would be sent after the erasure."""
    job = await submit(world.database, world.tenant, **PAYLOAD)
    event = await end(world.database, job, Status.SUCCEEDED)
    async with world.database.transaction() as connection:
        store = NewDeliveryStore(connection)
        assert len((await store.claim({event: ""}, 10, LEASE, 10)).claims) == 1
        erasing = asyncio.create_task(eraser.erase(world.tenant, job))
        await until_blocked(world.database)
    with pytest.raises(Problem) as refused:
        await erasing
    assert refused.value.status == 409


async def test_a_delivery_is_not_taken_during_its_erasure(world: World) -> None:
    steps = Steps(world.database)
    job = await submit(world.database, world.tenant, **PAYLOAD)
    event = await end(world.database, job, Status.SUCCEEDED)
    async with world.database.transaction() as connection:
        events = await lock_events(connection, job)
        assert not await is_delivering(connection, job, events)
        assert await steps.take(event) == []
        await erase_job(connection, job, events)
    assert await steps.take(event) == []
    assert await steps.claim() == []


async def test_a_late_start_event_is_not_recorded(world: World, eraser: Eraser) -> None:
    """Neither after the erasure, nor during it."""
    store = ResultStore(world.database)
    jobs = [await submit(world.database, world.tenant, **PAYLOAD) for _ in range(2)]
    starts = []
    for job in jobs:
        claimed = await claim(world.database, job)
        event = NewEvent(ids.new(), "job.started", 1, RAW, TRACEPARENT)
        starts.append(AttemptStart(claimed, event))
        if job == jobs[0]:
            await end_jobs(world.database, [new_end(claimed)])
    assert await eraser.erase(world.tenant, jobs[0])
    async with world.database.transaction() as connection:
        await connection.execute("SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE", jobs[1])
        late = asyncio.create_task(store.record_starts(starts))
        await until_blocked(world.database)
        await connection.execute(END_AND_ERASE, jobs[1])
    await late
    assert await world.database.fetch("SELECT 1 FROM events WHERE type = 'job.started'") == []
