"""Reads the rows of a job's trace."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from common.jobs.job import Job, read_shown_job
from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.gateway.reports.traces")


class TracedJob(NamedTuple):
    """A job, and when a retry queued it last, if no attempt followed."""

    row: Job
    retried_at: datetime | None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt, or `count` attempts in a row that Triton refused. `finished_at` is None while it runs."""

    attempt: int
    count: int
    model: str
    worker: str
    due_at: datetime  # the earliest start: later than the wait began, if the job backed off or was scheduled
    started_at: datetime
    finished_at: datetime | None
    status: str
    error_code: str | None
    is_first: bool
    retried_at: datetime | None  # when a retry queued the job before the attempt


class TraceStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_job(self, job_id: UUID, tenant_id: UUID) -> TracedJob | None:
        """Return the tenant's job."""
        record = await self._database.fetch_one(QUERIES["find_traced_job"], job_id, tenant_id)
        return None if record is None else TracedJob(read_shown_job(dict(record)), record["retried_at"])

    async def list_runs(self, job_id: UUID, tenant_id: UUID, limit: int) -> list[Run]:
        """Return the latest attempts at the tenant's job, newest first."""
        return [Run(**record) for record in await self._database.fetch(QUERIES["list_runs"], job_id, tenant_id, limit)]
