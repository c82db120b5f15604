"""Ends jobs, each with its outputs and its event."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

from common.job_states import Failure, Status
from common.jobs.moves import Move, Moves
from common.jobs.new_event import NewEvent
from common.postgres import statements
from common.postgres.statements import Executor
from common.reuse.key import ReuseKey

STATEMENTS = statements.load("common.jobs", "end.sql")
MOVES = (
    Moves(
        "end_jobs",
        [
            Move(Status.PROCESSING, Status.SUCCEEDED),
            Move(Status.PROCESSING, Status.FAILED),
            Move(Status.CANCELING, Status.CANCELED),
            Move(Status.CANCELING, Status.SUCCEEDED, "the answer came first"),
            Move(Status.CANCELING, Status.FAILED),
            Move(Status.QUEUED, Status.EXPIRED, "not started in time"),
            Move(Status.QUEUED, Status.FAILED, "no Triton has the model any more"),
        ],
    ),
)


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
    raw_outputs: bytes | None = None  # of a step: packed by common/tensors.py
    prompt_tokens: int | None = None  # as the model said, as the next two
    completion_tokens: int | None = None
    finish_reason: str | None = None
    load_id: UUID | None = None  # of the model that made the outputs; None: not known
    reuse: ReuseKey | None = None  # the key whose twin it may be
    parent: UUID | None = None  # the run of a step
    step: str | None = None
    step_index: int | None = None

    @property
    def error_code(self) -> str | None:
        return None if self.failure is None else self.failure.code

    @property
    def error_message(self) -> str | None:
        return None if self.failure is None else self.failure.message

    @property
    def error_retryable(self) -> bool | None:
        return None if self.failure is None else self.failure.retryable

    @property
    def is_step(self) -> bool:
        return self.parent is not None

    @property
    def file_count(self) -> int:
        return len(self.files)


class _File(NamedTuple):
    id: UUID
    event_id: UUID


async def end_jobs(executor: Executor, ends: Sequence[JobEnd]) -> set[UUID]:
    """Return the ids of the events that were recorded."""
    files = [_File(file, end.event.id) for end in ends for file in end.files]
    found = await STATEMENTS["end_jobs"].run(executor, ends=ends, files=files)
    return {record["event_id"] for record in found}
