"""Adds jobs that share one execution with other jobs that ask the same, or that take a result there is."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.jobs.new_event import NewEvent
from common.jobs.new_job import NewJob
from common.jobs.submit import JobTimes
from common.postgres import statements
from common.postgres.statements import Executor

STATEMENTS = statements.load("common.jobs", "submit_reusing.sql")


class Candidate(NamedTuple):
    """A job to add with a key. It replaces the twin `before`, if that still is the twin, and its claims go on."""

    job: NewJob
    before: UUID | None
    claim: int = 0


class Reused(NamedTuple):
    """A job to add with the result of a twin, under its claim. It is submitted, and ends, at the time `at`."""

    job: NewJob
    twin: UUID
    claim: int
    at: datetime
    event: NewEvent


class Added(NamedTuple):
    """The times of an added job. `leads`: it is the twin of its key, and may be claimed."""

    times: JobTimes
    leads: bool


async def submit_reusing(executor: Executor, candidates: Sequence[Candidate]) -> dict[UUID, Added]:
    """Add jobs without files, but skip those whose idempotency key is in use. No two of them may have the same one."""
    found = await STATEMENTS["submit_reusing"].run(executor, jobs=candidates)
    return {
        record["id"]: Added(JobTimes(record["created_at"], record["run_at"], record["expires_at"]), record["leads"])
        for record in found
    }


async def add_reused(executor: Executor, jobs: Sequence[Reused]) -> set[UUID]:
    """Add jobs that have ended, and return their ids. Skip those whose idempotency key is in use or whose twin is gone.

    No two of them may have the same idempotency key.
    """
    return {record["id"] for record in await STATEMENTS["add_reused"].run(executor, jobs=jobs)}
