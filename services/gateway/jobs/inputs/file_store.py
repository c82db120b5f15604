"""Finds the files that jobs read, and keeps them from being deleted."""

import asyncio
from collections.abc import Collection, Sequence
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Connection, Database, to_columns
from services.gateway.jobs.inputs.large_input_store import keep_large_inputs
from services.gateway.jobs.store import JobFile, JobTimes, NewJob, add_jobs

PAUSES = (0.01, 0.05, 0.2, 0.5)  # seconds; a deletion takes two statements
QUERIES = sql.load("services.gateway.jobs.inputs", "files.sql")


class InputFileStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, tenant_id: UUID, files: Collection[UUID]) -> dict[UUID, int]:
        """Return the bytes of those of the files that jobs of the tenant may read."""
        found = await self._database.fetch(QUERIES["find_input_files"], list(files), tenant_id)
        return {record["id"]: record["size"] for record in found}

    async def submit_jobs(self, jobs: Sequence[NewJob]) -> tuple[dict[UUID, JobTimes], dict[UUID, JobFile]]:
        """Add jobs that read files, as JobStore.submit_jobs does. Return their times.

        A job with a file that was deleted since is not added: the file is returned by the job. Raises Problem (503),
        and adds no job, if a sweeper has taken a large input.
        """
        async with self._database.transaction() as connection:
            missing = find_missing(jobs, await lock_files(connection, jobs))
            times = await add_jobs(connection, [job for job in jobs if job.id not in missing])
            await add_job_files(connection, [job for job in jobs if job.id in times])
            await keep_large_inputs(connection, jobs, times)
        return times, missing


async def lock_files(connection: Connection, jobs: Sequence[NewJob]) -> set[UUID]:
    """Keep the files of jobs until the transaction ends. Return those that are still there.

    A deletion that is under way may yet find that a job needs the file. So its end is awaited, but not on its lock:
    other transactions may wait for this one.
    """
    files, kept = {file.id for job in jobs for file in job.files}, set[UUID]()
    for pause in (*PAUSES, 0.0):
        if not (left := files - kept):
            break
        kept |= {record["id"] for record in await connection.fetch(QUERIES["lock_input_files"], list(left))}
        if not (files - kept) or not await connection.fetchval(QUERIES["has_usable_file"], list(files - kept)):
            break
        await asyncio.sleep(pause)
    return kept


async def add_job_files(connection: Connection, jobs: Sequence[NewJob]) -> None:
    """Note which files the jobs read: these are kept until the jobs have ended."""
    if rows := [(job.id, file) for job in jobs for file in sorted({file.id for file in job.files})]:
        await connection.execute(QUERIES["add_job_files"], *to_columns(rows, 2))


def find_missing(jobs: Sequence[NewJob], ready: Collection[UUID]) -> dict[UUID, JobFile]:
    """Return the first file of each job that is not ready."""
    missing: dict[UUID, JobFile] = {}
    for job in jobs:
        for file in job.files:
            if file.id not in ready:
                missing.setdefault(job.id, file)
    return missing
