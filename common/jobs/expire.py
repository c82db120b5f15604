"""Finds jobs that end in the queue: their time is over, or their model is gone. `end` ends them."""

from collections.abc import Sequence
from datetime import datetime

from common.jobs.job import WaitingJob, read_jobs
from common.postgres import statements
from common.postgres.statements import Executor

STATEMENTS = statements.load("common.jobs", "expire.sql")
WaitingJobs = list[tuple[WaitingJob, datetime]]  # each with the database's time


async def find_expired(executor: Executor, limit: int) -> WaitingJobs:
    """Return queued jobs that did not start within their `expires_in`."""
    return read_jobs(WaitingJob, await STATEMENTS["find_expired"].run(executor, limit=limit))


async def find_unserved(executor: Executor, models: Sequence[str], limit: int) -> WaitingJobs:
    """Return up to `limit` claimable jobs of models that are not in the catalogue."""
    return read_jobs(WaitingJob, await STATEMENTS["find_unserved"].run(executor, models=models, limit=limit))
