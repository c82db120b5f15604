"""Removes ended jobs, with everything that belongs to them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from common.postgres import statements
from common.postgres.statements import Executor

STATEMENTS = statements.load("common.jobs", "remove.sql")


class EndedJobCursor(NamedTuple):
    """A position in the order in which jobs ended."""

    finished_at: datetime
    id: UUID


class RemovedBatch(NamedTuple):
    """How many ended jobs were examined and removed, and the last one examined."""

    examined: int
    removed: int
    last: EndedJobCursor


OLDEST = EndedJobCursor(datetime.fromtimestamp(0, UTC), UUID(int=0))


async def remove_old_jobs(executor: Executor, age: float, limit: int, after: EndedJobCursor = OLDEST) -> RemovedBatch:
    """Remove jobs that ended more than `age` seconds ago. Examine at most `limit` jobs after the cursor."""
    for record in await STATEMENTS["remove_old_jobs"].run(executor, age=age, limit=limit, **after._asdict()):
        last = EndedJobCursor(record["finished_at"], record["id"])
        return RemovedBatch(record["examined"], record["removed"], last)
    return RemovedBatch(0, 0, OLDEST)


class Ended(Protocol):
    """A job that had ended at this time when it was found."""

    @property
    def id(self) -> UUID: ...
    @property
    def finished_at(self) -> datetime: ...


async def remove_jobs(executor: Executor, ended: Sequence[Ended]) -> tuple[int, set[UUID]]:
    """Remove those of the jobs that nobody needs and that were not retried. Return how many, and their batches."""
    removed = await STATEMENTS["remove_jobs"].run(executor, old=ended)
    return len(removed), {record["batch_id"] for record in removed if record["batch_id"]}
