"""Removes ended jobs, with everything that belongs to them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from common.postgres import statements
from common.postgres.statements import Executor

STATEMENTS = statements.load("common.jobs", "remove.sql")


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
