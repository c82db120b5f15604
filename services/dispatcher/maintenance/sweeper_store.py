"""Finds jobs that are due, expired or abandoned."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg

from common.jobs import Priority
from common.postgres import sql
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUp, job_wake_up
from services.dispatcher.claims.claimed_job import ClaimedJob, read_claimed_job
from services.dispatcher.retry_policy import MAX_INTERRUPTIONS, PROBATION_SECONDS

QUERIES = sql.load("services.dispatcher.maintenance", "sweeper.sql")
WATCHED = 5000  # leases at a time
SUSPECTED = 200  # jobs of a queue that become suspects at a time
LOCK = 0x0C4A201A_50524F42  # any number that nothing else locks
JobsAtTime = list[tuple[ClaimedJob, datetime]]  # each with the database's time


class Lease(NamedTuple):
    """A running job, and until when its lease lasts by the database's clock. A renewal makes another lease of it."""

    job_id: UUID
    until: datetime


class SweeperStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def promote_jobs(self, limit: int) -> list[WakeUp]:
        """Make scheduled jobs claimable that are due. Return their wake-ups, to be announced."""
        found = await self._database.fetch(QUERIES["promote_jobs"], limit)
        return [read_wake_up(each) for each in found]

    async def promote_suspect(self) -> list[WakeUp]:
        """Make one suspected poison job claimable, if it may run now. Return its wake-up, to be announced."""
        suspect = await self._database.fetch_one(QUERIES["find_suspect"])
        if suspect is None or not suspect["found"]:
            return []
        async with self._database.transaction() as connection:
            if not await connection.fetchval(QUERIES["lock_promotion"], LOCK):
                return []
            await connection.execute(QUERIES["return_suspects"])
            await connection.execute(QUERIES["suspect_jobs"], SUSPECTED, PROBATION_SECONDS, MAX_INTERRUPTIONS)
            return [read_wake_up(each) for each in await connection.fetch(QUERIES["promote_suspect"])]

    async def find_overdue(self, seconds: float) -> list[Lease]:
        """Return leases that end in less than this time, or have lapsed, the earliest first."""
        return [Lease(*record) for record in await self._database.fetch(QUERIES["find_overdue"], seconds, WATCHED)]

    async def find_abandoned(self, jobs: Sequence[UUID], limit: int) -> JobsAtTime:
        """Return those of the jobs whose lease has lapsed."""
        return await self._find("find_abandoned", jobs, limit)

    async def find_orphaned(self, sessions: Sequence[int], limit: int) -> JobsAtTime:
        """Return running jobs of these sessions."""
        return await self._find("find_orphaned", sessions, limit)

    async def forget_models(self, sessions: Sequence[int]) -> None:
        """Make the models of these sessions count as not ready."""
        await self._database.fetch(QUERIES["forget_models"], sessions)

    async def find_expired(self, limit: int) -> JobsAtTime:
        """Return queued jobs that did not start within their `expires_in`."""
        return await self._find("find_expired", limit)

    async def _find(self, query: str, *values: object) -> JobsAtTime:
        found = await self._database.fetch(QUERIES[query], *values)
        return [(read_claimed_job(dict(record)), record["now"]) for record in found]


def read_wake_up(record: asyncpg.Record) -> WakeUp:
    return job_wake_up(Priority(record["priority"]), record["model"], record["traceparent"])
