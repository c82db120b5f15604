"""Saves the results of attempts."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from common.errors import CharoniaError
from common.jobs.job import ClaimedJob
from common.jobs.new_event import NewEvent
from common.postgres import sql
from common.postgres.database import Database, to_columns
from services.dispatcher.failures.retry_policy import Attempted
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


class AttemptStart(NamedTuple):
    """The start of an attempt, with its event. It is saved only while the job runs under its claim."""

    job: ClaimedJob
    event: NewEvent


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
                event.id,
                job.tenant_id,
                job.id,
                job.claim,
                job.model,
                event.sequence,
                event.type,
                job.started_at,
                event.body,
                event.traceparent,
            )
            for job, event in starts
        ]
        await self._database.fetch(QUERIES["record_starts"], *to_columns(rows, 10))

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
