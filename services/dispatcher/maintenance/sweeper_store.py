"""Finds jobs that are due, expired or abandoned."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.jobs import Priority
from common.outbox import OutboxRow, job_wake_up, to_values
from common.postgres import sql
from common.postgres.database import Database, to_columns
from services.dispatcher.claims.claimed_job import ClaimedJob, read_claimed_job

QUERIES = sql.load("services.dispatcher.maintenance", "sweeper.sql")
JobsAtTime = list[tuple[ClaimedJob, datetime]]  # each with the database's time


class DueJobs(NamedTuple):
    """The wake-ups of due jobs, and the due jobs whose model is not in the catalogue."""

    wake_ups: list[OutboxRow]
    unserved: list[UUID]


class SweeperStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def take_due_jobs(self, limit: int) -> DueJobs:
        """Save a wake-up for each queued job that is due. The caller announces them."""
        async with self._database.transaction() as connection:
            due = await connection.fetch(QUERIES["take_due_jobs"], limit)
            rows = [
                job_wake_up(record["id"], Priority(record["priority"]), record["model"], record["traceparent"])
                for record in due
                if record["known"]
            ]
            if rows:
                await connection.execute(QUERIES["add_messages"], *to_columns([to_values(row) for row in rows], 5))
        return DueJobs(rows, [record["id"] for record in due if not record["known"]])

    async def find_abandoned(self, limit: int) -> JobsAtTime:
        """Return running jobs whose lease has lapsed."""
        return await self._find("find_abandoned", limit)

    async def find_expired(self, limit: int) -> JobsAtTime:
        """Return queued jobs that did not start within their `expires_in`."""
        return await self._find("find_expired", limit)

    async def find_queued(self, jobs: Sequence[UUID]) -> JobsAtTime:
        """Return the given jobs that are still queued."""
        return await self._find("find_queued", jobs)

    async def _find(self, query: str, value: object) -> JobsAtTime:
        found = await self._database.fetch(QUERIES[query], value)
        return [(read_claimed_job(dict(record)), record["now"]) for record in found]
