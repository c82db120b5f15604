"""A job whose row is locked delays no other job's reclaim or expiry."""

from uuid import UUID

from common.jobs.expire import find_expired
from common.jobs.rescue import find_abandoned, find_orphaned, find_overdue
from common.postgres.database import Database
from tests.integration.jobs import lapse, submit, take

LOCK = "SELECT FROM jobs WHERE id = ANY($1::uuid[]) FOR UPDATE"
SESSION = 7


async def test_a_locked_job_is_left_for_a_later_sweep(database: Database, tenant: UUID) -> None:
    for _ in range(2):
        await submit(database, tenant)
    lapsed = [job.id for job in await take(database, 2, session=SESSION)]
    for job in lapsed:
        await lapse(database, job)
    expired = [await submit(database, tenant, expires_in=100.0) for _ in range(2)]
    await database.fetch("UPDATE jobs SET expires_at = now() WHERE expires_at IS NOT NULL")

    async def find() -> list[set[UUID]]:
        abandoned = await find_abandoned(database, lapsed, 9)
        orphaned = await find_orphaned(database, [SESSION], 9)
        found = abandoned, orphaned, await find_expired(database, 9)
        overdue = {lease.job_id for lease in await find_overdue(database, 0.0, 9)}
        return [overdue, *({job.id for job, _ in each} for each in found)]

    async with database.transaction() as other:
        await other.execute(LOCK, [lapsed[0], expired[0]])
        assert await find() == [{lapsed[1]}, {lapsed[1]}, {lapsed[1]}, {expired[1]}]
    assert await find() == [{*lapsed}, {*lapsed}, {*lapsed}, {*expired}]
