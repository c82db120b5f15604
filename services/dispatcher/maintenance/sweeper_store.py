"""Finds jobs that are due, expired or abandoned."""

from collections.abc import Sequence
from uuid import UUID

from common.jobs.expire import WaitingJobs, find_expired
from common.jobs.promote import promote_jobs, promote_suspect
from common.jobs.rescue import Beside, Lease, LostJobs, find_abandoned, find_beside, find_orphaned, find_overdue
from common.postgres import sql
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUp
from services.dispatcher.retry_policy import MAX_INTERRUPTIONS, PROBATION_SECONDS

QUERIES = sql.load("services.dispatcher.maintenance", "sweeper.sql")
WATCHED = 5000  # leases at a time


class SweeperStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def promote_jobs(self, limit: int) -> list[WakeUp]:
        """Make scheduled jobs claimable that are due. Return their wake-ups, to be announced."""
        return await promote_jobs(self._database, limit)

    async def promote_suspect(self) -> list[WakeUp]:
        """Make one suspected poison job claimable, if it may run now. Return its wake-up, to be announced."""
        return await promote_suspect(self._database, PROBATION_SECONDS, MAX_INTERRUPTIONS)

    async def find_overdue(self, seconds: float) -> list[Lease]:
        """Return leases that end in less than this time, or have lapsed, the earliest first."""
        return await find_overdue(self._database, seconds, WATCHED)

    async def find_abandoned(self, jobs: Sequence[UUID], limit: int) -> LostJobs:
        """Return those of the jobs whose lease has lapsed."""
        return await find_abandoned(self._database, jobs, limit)

    async def find_orphaned(self, sessions: Sequence[int], limit: int) -> LostJobs:
        """Return running jobs of these sessions."""
        return await find_orphaned(self._database, sessions, limit)

    async def find_beside(self, workers: Sequence[str]) -> list[Beside]:
        """Return all running jobs of these workers."""
        return await find_beside(self._database, workers)

    async def forget_models(self, sessions: Sequence[int]) -> None:
        """Make the models of these sessions count as not ready."""
        await self._database.fetch(QUERIES["forget_models"], sessions)

    async def find_expired(self, limit: int) -> WaitingJobs:
        """Return queued jobs that did not start within their `expires_in`."""
        return await find_expired(self._database, limit)
