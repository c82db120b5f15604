"""Keeps the files that new jobs read. Part of `submit`."""

import asyncio
from collections.abc import Collection, Sequence
from typing import NamedTuple
from uuid import UUID

from common.errors import CharoniaError
from common.jobs.new_job import JobFile, NewJob
from common.postgres import statements
from common.postgres.database import Connection
from common.postgres.statements import Executor

PAUSES = (0.01, 0.05, 0.2, 0.5)  # seconds; a deletion takes two statements
STATEMENTS = statements.load("common.jobs", "input_files.sql")


class LargeInputsLost(CharoniaError):
    """Storing the inputs of jobs took too long, and a sweeper has taken their files."""


class KeptFile(NamedTuple):
    """A file that is given to a job, and the SHA-256 of what is stored."""

    job: UUID
    file: UUID
    sha256: bytes


async def lock_files(connection: Connection, jobs: Sequence[NewJob]) -> dict[UUID, JobFile]:
    """Keep the files of jobs until the transaction ends. Return by job the first file that is gone.

    A deletion that is under way may yet find that a job needs the file. So its end is awaited, but not on its lock:
    other transactions may wait for this one.
    """
    left = {file.id for job in jobs for file in job.files}
    for pause in (*PAUSES, 0.0):
        if not left:
            break
        left -= {record["id"] for record in await STATEMENTS["lock_input_files"].run(connection, files=list(left))}
        if not left or not (await STATEMENTS["has_usable_file"].run(connection, files=list(left)))[0]["found"]:
            break
        await asyncio.sleep(pause)
    gone = ((job.id, file) for job in jobs for file in reversed(job.files) if file.id in left)
    return dict(gone)


async def keep_large_inputs(connection: Connection, jobs: Sequence[NewJob], added: Collection[UUID]) -> None:
    """Give the files of the added jobs to them, and let a sweeper delete those of the other jobs.

    Raises LargeInputsLost, so that no job is added, if a sweeper has taken a file.
    """
    large = [KeptFile(job.id, each.id, each.sha256) for job in jobs for each in job.large_inputs]
    if kept := [each for each in large if each.job in added]:
        await keep_files(connection, kept)
    if dropped := [each.file for each in large if each.job not in added]:
        await drop_large_inputs(connection, dropped)


async def keep_files(executor: Executor, kept: Sequence[KeptFile]) -> None:
    """Give files to jobs. Raises LargeInputsLost if a sweeper has taken one."""
    found = await STATEMENTS["keep_large_inputs"].run(executor, kept=kept)
    if len(found) < len(kept):
        raise LargeInputsLost


async def drop_large_inputs(executor: Executor, files: Sequence[UUID]) -> None:
    """Let a sweeper delete those of the files that no job got."""
    await STATEMENTS["drop_large_inputs"].run(executor, files=files)
