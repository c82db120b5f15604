"""Jobs that a later release wrote stop no work of the leader."""

from uuid import UUID

import pytest

from common.jobs.expire import find_expired
from common.jobs.promote import promote_jobs
from common.jobs.rescue import find_abandoned, find_orphaned
from common.postgres.database import Database
from common.rabbitmq.wake_ups import job_wake_up
from services.dispatcher.maintenance.reconciler.reconciler import list_wake_ups
from services.dispatcher.maintenance.reconciler.store import find_waiting_queues
from tests.integration.jobs import TRACEPARENT, lapse, submit, take
from tests.support.database.later_release import ALLOW_MORE, SET_PRIORITY, SET_STATUS

SESSION = 7


@pytest.fixture(autouse=True)
async def migrated(database: Database) -> None:
    await database.fetch(ALLOW_MORE)


async def test_the_leader_leaves_jobs_out_that_it_cannot_read(database: Database, tenant: UUID) -> None:
    expired = [await submit(database, tenant, expires_in=100.0, model="slow") for _ in range(3)]
    await database.fetch("UPDATE jobs SET expires_at = now()")
    for _ in range(2):
        await submit(database, tenant)
    lapsed = [job.id for job in await take(database, 2, session=SESSION)]
    for job in lapsed:
        await lapse(database, job)
    await database.fetch(SET_STATUS, expired[0])
    await database.fetch(SET_PRIORITY, expired[1])
    await database.fetch(SET_PRIORITY, lapsed[0])
    assert [job.id for job, _ in await find_expired(database, 9)] == [expired[2]]
    assert [job.id for job, _ in await find_abandoned(database, lapsed, 9)] == [lapsed[1]]
    assert [job.id for job, _ in await find_orphaned(database, [SESSION], 9)] == [lapsed[1]]


async def test_jobs_of_a_new_priority_wake_the_dispatchers_that_know_it(database: Database, tenant: UUID) -> None:
    job = await submit(database, tenant)
    await database.fetch(SET_PRIORITY, job)
    (queue,) = await find_waiting_queues(database, 0.0, 9)
    (wake_up,) = list_wake_ups([queue])
    assert wake_up == job_wake_up(queue.jobs[0], "urgent", "echo", TRACEPARENT)
    await database.fetch("UPDATE jobs SET scheduled_at = now()")
    assert await promote_jobs(database, 9) == [wake_up]
