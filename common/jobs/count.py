"""Notes which ends are counted as usage. Each end has the id of its transaction."""

from common.job_states import TERMINAL
from common.jobs.moves import Moves, stay
from common.postgres import statements
from common.postgres.statements import Executor

STATEMENTS = statements.load("common.jobs", "count.sql")
MOVES = Moves("forget_counted_jobs", stay(*TERMINAL))


async def forget_counted_jobs(executor: Executor, limit: int) -> None:
    """Take the transaction from up to `limit` jobs that ended on a server with larger ids, and are counted."""
    await STATEMENTS["forget_counted_jobs"].run(executor, limit=limit)
