"""Adds jobs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from common.jobs.input_files import keep_large_inputs, lock_files
from common.jobs.new_job import JobFile, NewJob
from common.postgres import statements
from common.postgres.database import Connection, Database
from common.postgres.statements import Executor

STATEMENTS = statements.load("common.jobs", "submit.sql")


class JobTimes(NamedTuple):
    """The times of an added job, by the database's clock."""

    created_at: datetime
    run_at: datetime
    expires_at: datetime | None


class Submitted(NamedTuple):
    """The added jobs with their times, and the jobs that were not added because a file is gone, with that file."""

    added: Mapping[UUID, JobTimes]
    gone: Mapping[UUID, JobFile]


async def submit_jobs(database: Database, jobs: Sequence[NewJob]) -> Submitted:
    """Add all jobs or none, but skip those whose idempotency key is in use, and those with a file that is gone.

    Raises LargeInputsLost, and adds no job, if a sweeper has taken a large input.
    """
    if not any(job.files or job.large_inputs for job in jobs):
        return Submitted(await insert_jobs(database, jobs), {})
    async with database.transaction() as connection:
        return await submit_in_transaction(connection, jobs)


async def submit_in_transaction(connection: Connection, jobs: Sequence[NewJob]) -> Submitted:
    """Add jobs as `submit_jobs` does, in the transaction of the connection."""
    gone = await lock_files(connection, jobs)
    added = await insert_jobs(connection, [job for job in jobs if job.id not in gone])
    await keep_large_inputs(connection, jobs, added)
    return Submitted(added, gone)


async def insert_jobs(executor: Executor, jobs: Sequence[NewJob]) -> dict[UUID, JobTimes]:
    """Insert jobs with one statement. Of those with one idempotency key, it inserts the first."""
    found = await STATEMENTS["submit_jobs"].run(executor, jobs=choose_first(jobs))
    return {record["id"]: JobTimes(record["created_at"], record["run_at"], record["expires_at"]) for record in found}


def choose_first(jobs: Iterable[NewJob]) -> list[NewJob]:
    """Return jobs in the order of their ids. Of those with one idempotency key, return the first."""
    newest_first = sorted(jobs, key=attrgetter("id"), reverse=True)
    first = {(job.tenant_id, job.idempotency_key or job.id): job for job in newest_first}
    return list(reversed(first.values()))
