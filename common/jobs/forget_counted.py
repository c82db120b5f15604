"""Clears the transactions of ends that are counted as usage, and come from a dump of another server."""

from common.job_states import TERMINAL
from common.jobs.moves import Moves, stay
from common.postgres import statements
from common.postgres.statements import Executor

STATEMENTS = statements.load("common.jobs", "forget_counted.sql")
MOVES = (Moves("forget_counted_jobs", stay(*TERMINAL)),)


async def forget_counted_jobs(executor: Executor, limit: int) -> None:
    """Clear the transactions of up to `limit` such ends. Later transactions here will have the same ids."""
    await STATEMENTS["forget_counted_jobs"].run(executor, limit=limit)
