"""Finds running jobs that lost their worker. `requeue` and `end` say what becomes of them."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.jobs.job import ClaimedJob, read_jobs
from common.postgres import statements
from common.postgres.statements import Executor

STATEMENTS = statements.load("common.jobs", "rescue.sql")
LostJobs = list[tuple[ClaimedJob, datetime]]  # each with the database's time


class Beside(NamedTuple):
    """A running job of a worker, and when it was claimed by the database's clock."""

    worker: str
    tenant_id: UUID
    started_at: datetime


class Lease(NamedTuple):
    """A running job, and until when its lease lasts by the database's clock. A renewal makes another lease of it."""

    job_id: UUID
    until: datetime


async def find_overdue(executor: Executor, seconds: float, limit: int) -> list[Lease]:
    """Return leases that end in less than this time, or have lapsed, the earliest first."""
    return [Lease(*each) for each in await STATEMENTS["find_overdue"].run(executor, seconds=seconds, limit=limit)]


async def find_abandoned(executor: Executor, jobs: Sequence[UUID], limit: int) -> LostJobs:
    """Return those of the jobs whose lease has lapsed."""
    return read_jobs(ClaimedJob, await STATEMENTS["find_abandoned"].run(executor, jobs=jobs, limit=limit))


async def find_orphaned(executor: Executor, sessions: Sequence[int], limit: int) -> LostJobs:
    """Return running jobs of these sessions."""
    return read_jobs(ClaimedJob, await STATEMENTS["find_orphaned"].run(executor, sessions=sessions, limit=limit))


async def find_beside(executor: Executor, workers: Sequence[str]) -> list[Beside]:
    """Return all running jobs of these workers."""
    return [Beside(*each) for each in await STATEMENTS["find_beside"].run(executor, workers=workers)]
