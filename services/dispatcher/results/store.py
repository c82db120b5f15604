"""Saves the results of attempts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

from common.errors import CharoniaError
from common.jobs import Failure, Status
from common.postgres import sql
from common.postgres.database import Database, to_columns
from common.views.job import JobRow
from services.dispatcher.retry_policy import Attempted
from services.dispatcher.triton.tensors import OutputFile

QUERIES = sql.load("services.dispatcher.results")
FILE_SECONDS = 3600.0  # until a sweeper deletes an output that no job has
DROP_SECONDS = 60.0  # until it deletes one that was given up: a cancelled write of it may still run


class NotStored(CharoniaError):
    """The database answers, but it could not store a result in time."""


class OutputsNotStored(NotStored):
    """An object store did not take the outputs of a result. `outcome` is that of the attempt, which counts."""

    def __init__(self, outcome: Attempted) -> None:
        super().__init__(outcome.failure.message)
        self.outcome = outcome


class NewEvent(msgspec.Struct, frozen=True):
    """An event to record, with its webhook body. `traceparent` is for its deliveries."""

    id: UUID
    type: str
    sequence: int
    body: bytes
    traceparent: str


class AttemptStart(NamedTuple):
    """The start of an attempt, with its event. It is saved only while the job runs under `claim`."""

    row: JobRow
    claim: int
    at: datetime
    event: NewEvent


class JobEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a job. It is saved only if `was` and `claim` still match, and all its `files` are there."""

    id: UUID
    claim: int
    was: Literal["running", "queued"]
    model: str
    status: Status
    finished_at: datetime
    event: NewEvent
    version: str | None = None
    failure: Failure | None = None
    inference_ms: float | None = None
    outputs: bytes | None = None
    files: Sequence[UUID] = ()
    interruptions: int | None = None  # in a row; None: as before


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


class Step(NamedTuple):
    """One streamed response of a running job. Numbers count from 1; `outputs` is the JSON list of the API."""

    job_id: UUID
    claim: int
    number: int
    outputs: bytes
    files: Sequence[OutputFile] = ()


class ResultStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def record_starts(self, starts: Sequence[AttemptStart]) -> None:
        rows = [
            (
                *(event.id, row.tenant_id, row.id, claim, row.model),
                *(event.sequence, event.type, at, event.body, event.traceparent),
            )
            for row, claim, at, event in starts
        ]
        await self._database.fetch(QUERIES["record_starts"], *to_columns(rows, 10))

    async def end_jobs(self, ends: Sequence[JobEnd]) -> set[UUID]:
        """Return the ids of the events that were recorded."""
        rows = [
            (
                *(end.id, end.claim, end.was, end.status, end.version, *failure_values(end.failure)),
                *(end.inference_ms, end.finished_at, end.outputs),
                *(end.event.id, end.event.sequence, end.event.type, end.event.body, end.event.traceparent),
                *(len(end.files), end.interruptions),
            )
            for end in ends
        ]
        files = [(file, end.event.id) for end in ends for file in end.files]
        found = await self._database.fetch(QUERIES["end_jobs"], *to_columns(rows, 18), *to_columns(files, 2))
        return {record["event_id"] for record in found}

    async def add_files(self, tenant_id: UUID, files: Sequence[OutputFile]) -> bool:
        """Add the rows of outputs whose objects are written next. Adding them again has no effect."""
        rows = [(file.id, file.size, file.sha256) for file in files]
        await self._database.fetch(QUERIES["add_files"], tenant_id, FILE_SECONDS, *to_columns(rows, 3))
        return True

    async def drop_files(self, files: Sequence[UUID]) -> None:
        """Let a sweeper delete those of the files that no job got."""
        await self._database.fetch(QUERIES["drop_files"], files, DROP_SECONDS)

    async def add_steps(self, steps: Sequence[Step]) -> None:
        rows = [step[:4] for step in steps]
        files = [(file.id, step.job_id, step.claim, step.number) for step in steps for file in step.files]
        await self._database.fetch(QUERIES["add_steps"], *to_columns(rows, 4), *to_columns(files, 4))

    async def requeue_jobs(self, requeues: Sequence[Requeue]) -> set[UUID]:
        """Return the ids of the jobs that were queued again."""
        rows = [
            (
                *(each.id, each.claim, each.delay, each.given_back, each.fallback),
                *(*failure_values(each.failure), each.refused, each.interruptions, each.probation),
            )
            for each in requeues
        ]
        found = await self._database.fetch(QUERIES["requeue_jobs"], *to_columns(rows, 11))
        return {record["id"] for record in found}


def failure_values(failure: Failure | None) -> tuple[object, ...]:
    return (None, None, None) if failure is None else (failure.code, failure.message, failure.retryable)
