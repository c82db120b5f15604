"""Keeps ended jobs for longer than the rest of their generation."""

from collections.abc import Sequence
from uuid import UUID

from common.job_states import TERMINAL
from common.jobs.moves import Moves, stay
from common.postgres import statements
from common.postgres.statements import Executor

STATEMENTS = statements.load("common.jobs", "keep.sql")
MOVES = (Moves("keep_jobs", stay(*TERMINAL)),)


async def keep_jobs(executor: Executor, generation: int, jobs: Sequence[UUID]) -> None:
    """Keep those of the jobs that are in a generation of history which is about to be emptied."""
    await STATEMENTS["keep_jobs"].run(executor, generation=generation, jobs=jobs)
