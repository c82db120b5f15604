"""The files of a job are deleted when it is removed or erased, and not before."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import pytest

from common import ids
from common.job_states import Status
from common.jobs.end import end_jobs
from common.jobs.erase import erase_job, lock_events
from common.postgres.database import Database
from services.dispatcher.maintenance.files.store import UnneededFileStore
from services.dispatcher.maintenance.retention import own_retention
from services.dispatcher.maintenance.retention.store import RetentionStore
from tests.integration.forgetting import forget
from tests.integration.jobs import claim, new_end, submit

HOUR = 3600.0
ADD = """
    INSERT INTO files (id, tenant_id, status, content_type, size, sha256, kept, job_id, expires_at)
    VALUES ($1, $2, 'ready', 'text/plain', 7, '', 60, $3,
            CASE WHEN $3::uuid IS NULL THEN now() + '1h' ELSE 'infinity' END)
"""
PAST = "UPDATE jobs SET finished_at = now() - $1::interval, ended_xid = NULL WHERE finished_at IS NOT NULL"


async def remove_old(database: Database, _job: UUID) -> None:
    assert await forget(database) == 1


async def remove_by_own_retention(database: Database, _job: UUID) -> None:
    assert await own_retention.remove_retained(RetentionStore(database)) == 1


async def erase(database: Database, job: UUID) -> None:
    async with database.transaction() as connection:
        await erase_job(connection, job, await lock_events(connection, job))


@pytest.mark.parametrize("remove", [remove_old, remove_by_own_retention, erase])
async def test_files_go_with_their_job(
    database: Database, tenant: UUID, remove: Callable[[Database, UUID], Awaitable[None]]
) -> None:
    jobs = [await submit(database, tenant, retain=HOUR) for _ in range(2)]
    files = []
    for job in (*jobs, None):
        files.append(ids.new())
        await database.fetch(ADD, files[-1], tenant, job)
    await end_jobs(database, [new_end(await claim(database, jobs[0]), Status.SUCCEEDED)])
    await database.fetch(PAST, timedelta(hours=2))
    sweeper = UnneededFileStore(database)
    assert await sweeper.claim(10, 60) == []
    await remove(database, jobs[0])
    (expired,) = await sweeper.claim(10, 60)
    assert (expired.id, expired.expired) == (files[0], True)


async def test_a_file_of_an_erased_job_goes_although_another_job_reads_it(database: Database, tenant: UUID) -> None:
    job, file_id = await submit(database, tenant), ids.new()
    await database.fetch(ADD, file_id, tenant, job)
    await end_jobs(database, [new_end(await claim(database, job), Status.SUCCEEDED)])
    other = await submit(database, tenant)
    await database.fetch("UPDATE jobs SET input_files = ARRAY[$2::uuid] WHERE id = $1", other, file_id)
    await erase(database, job)
    (expired,) = await UnneededFileStore(database).claim(10, 60)
    assert (expired.id, expired.expired) == (file_id, True)
