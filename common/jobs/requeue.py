"""Returns running jobs to the queue."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from common.job_states import Failure, Status
from common.jobs.moves import Move, Moves
from common.postgres import statements
from common.postgres.statements import Executor
from common.reuse.key import ReuseKey

STATEMENTS = statements.load("common.jobs", "requeue.sql")
MOVES = (Moves("requeue_jobs", [Move(Status.PROCESSING, Status.QUEUED, "failed attempt, or given back")]),)


class Requeue(msgspec.Struct, frozen=True, kw_only=True):
    """A job's return to the queue. It is saved only if `claim` still matches. `delay` is in seconds."""

    id: UUID
    claim: int
    failure: Failure
    delay: float = 0.0
    given_back: bool = False  # the attempt does not count
    interruptions: int | None = None  # in a row; None: as before
    probation: float | None = None  # if `interruptions` is given: for how many seconds the job is suspected
    refused: bool = False  # the attempt never began, so the job may still expire
    fallback: str | None = None
    reuse: ReuseKey | None = None  # the key of those that may wait for it


async def requeue_jobs(executor: Executor, requeues: Sequence[Requeue]) -> set[UUID]:
    """Return the ids of the jobs that were queued again."""
    return {record["id"] for record in await STATEMENTS["requeue_jobs"].run(executor, requeues=requeues)}
