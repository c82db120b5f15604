"""Runs of pipelines: jobs that no dispatcher claims. Their steps are jobs, too.

Whoever ends a job of a step locks its run first.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from common.job_states import TERMINAL, Failure, Status
from common.jobs.input_files import lock_files
from common.jobs.job import Job, read_jobs
from common.jobs.moves import Move, Moves, stay
from common.jobs.new_event import NewEvent
from common.jobs.new_job import NewJob
from common.pipelines.run_state import RunState, decode, encode
from common.postgres import statements
from common.postgres.database import Connection
from common.postgres.statements import Executor

STATEMENTS = statements.load("common.jobs", "run.sql")
MOVES = (
    Moves(
        "end_run",
        [
            Move(Status.PROCESSING, Status.SUCCEEDED, "all steps of a run have succeeded"),
            Move(Status.PROCESSING, Status.FAILED, "a step of a run failed, or the run took too long"),
            Move(Status.PROCESSING, Status.CANCELED, "cancel of a run"),
            Move(Status.QUEUED, Status.CANCELED, "cancel of a run that waits for its time"),
        ],
    ),
    Moves(
        "cancel_steps",
        [
            Move(Status.QUEUED, Status.CANCELED, "the run of a step has ended"),
            Move(Status.PROCESSING, Status.CANCELING, "the run of a step has ended"),
        ],
    ),
    Moves("begin_run", [Move(Status.QUEUED, Status.PROCESSING, "the time of a run has come")]),
    Moves("schedule_run", stay(Status.QUEUED, Status.PROCESSING)),
    Moves("save_states", stay(Status.QUEUED, Status.PROCESSING)),
    Moves("erase_steps", stay(*TERMINAL)),
)


class Run(Job, frozen=True, kw_only=True):
    """A locked run. `timeout` is in seconds, for all of its steps together.

    It is left to the sweep while it has `scheduled_at`.
    """

    claim: int
    lease_until: datetime | None  # its deadline; None until it begins
    timeout: float
    tensors: bytes
    run_state: bytes
    retain: float | None = None
    batch_id: UUID | None = None

    @property
    def state(self) -> RunState:
        """How far the run is."""
        return decode(self.run_state)


class SavedState(NamedTuple):
    """The state of a run, as JSON."""

    id: UUID
    state: bytes


class StepEvent(NamedTuple):
    """An entry in the stream of a run. `data` is JSON."""

    run: UUID
    claim: int
    type: str
    data: bytes


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a locked run, with its outputs as the JSON list of the API."""

    run: UUID
    status: Status
    state: RunState
    event: NewEvent
    failure: Failure | None = None
    outputs: bytes | None = None
    inference_ms: float | None = None


class StepCount(NamedTuple):
    """The jobs of a step that a run has, and those of them that succeeded and that have not ended."""

    made: int
    done: int
    live: int
    last: int  # the last element that has a job


class Canceling(NamedTuple):
    """A job of a step that runs, and that its dispatcher is to cancel."""

    id: UUID
    traceparent: str


async def lock_runs(executor: Executor, runs: Collection[UUID]) -> list[tuple[Run, datetime]]:
    """Lock those of the runs that have not ended, until the transaction ends. Return them with the database's time."""
    return read_jobs(Run, await STATEMENTS["lock_runs"].run(executor, runs=sorted(runs)))


async def lock_free_runs(executor: Executor, runs: Collection[UUID]) -> list[tuple[Run, datetime]]:
    """Do the same for those that nobody else has locked."""
    return read_jobs(Run, await STATEMENTS["lock_free_runs"].run(executor, runs=sorted(runs)))


async def begin_run(executor: Executor, run: UUID) -> Run | None:
    """Begin a locked run that waits for its time. Return it as it is then."""
    for found, _ in read_jobs(Run, await STATEMENTS["begin_run"].run(executor, run=run)):
        return found
    return None


async def schedule_run(executor: Executor, run: UUID, seconds: float | None) -> None:
    """Leave a run to the sweep, in so many seconds. None: take a locked one from it.

    Nothing happens to a run that another transaction has locked.
    """
    await STATEMENTS["schedule_run"].run(executor, run=run, seconds=seconds)


async def record_start(executor: Executor, run: UUID, event: NewEvent) -> bool:
    """Record the start of a locked run, if a webhook wants it. Return whether one does."""
    found = await STATEMENTS["record_start"].run(
        executor,
        run=run,
        event_id=event.id,
        body=event.body,
        sequence=event.sequence,
        traceparent=event.traceparent,
    )
    return bool(found)


async def find_overdue_runs(executor: Executor, limit: int) -> list[UUID]:
    """Return runs whose deadline has passed."""
    return [record["id"] for record in await STATEMENTS["find_overdue_runs"].run(executor, limit=limit)]


async def find_due_runs(executor: Executor, limit: int) -> list[UUID]:
    """Return runs that are left to the sweep, and whose time has come."""
    return [record["id"] for record in await STATEMENTS["find_due_runs"].run(executor, limit=limit)]


async def save_states(executor: Executor, states: Mapping[UUID, RunState]) -> None:
    """Save the states of locked runs."""
    rows = [SavedState(run, encode(state)) for run, state in states.items()]
    await STATEMENTS["save_states"].run(executor, runs=rows)


async def end_run(executor: Executor, end: RunEnd) -> None:
    """End a locked run."""
    failure, event = end.failure, end.event
    await STATEMENTS["end_run"].run(
        executor,
        run=end.run,
        status=end.status,
        state=encode(end.state),
        outputs=end.outputs,
        inference_ms=end.inference_ms,
        error_code=None if failure is None else failure.code,
        error_message=None if failure is None else failure.message,
        error_retryable=None if failure is None else failure.retryable,
        event_id=event.id,
        event_type=event.type,
        body=event.body,
        sequence=event.sequence,
        traceparent=event.traceparent,
    )


async def add_steps(connection: Connection, jobs: Sequence[NewJob]) -> bool:
    """Add jobs of steps of locked runs, or none of them. Return False if a file that one reads is gone."""
    if any(job.files for job in jobs) and await lock_files(connection, jobs):
        return False
    await STATEMENTS["add_steps"].run(connection, jobs=jobs)
    return True


async def cancel_steps(executor: Executor, run: UUID) -> list[Canceling]:
    """Cancel the jobs of the steps of a locked run that wait. Return those that run, which are canceling now."""
    found = await STATEMENTS["cancel_steps"].run(executor, run=run)
    return [Canceling(record["id"], record["traceparent"]) for record in found]


async def read_outputs(
    executor: Executor, run: UUID, step: str, first: int, *, count: int, limit: int
) -> dict[int, bytes | None]:
    """Return the outputs of elements of a step from `first` on, packed by `common.tensors`. None: they are gone.

    They are those of up to `count` elements with up to `limit` bytes together, and at least of one.
    """
    values = {"run": run, "step": step, "first": first, "count": count, "limit": limit}
    found = await STATEMENTS["read_outputs"].run(executor, **values)
    return {record["step_index"]: record["raw_outputs"] for record in found}


async def add_step_events(executor: Executor, events: Sequence[StepEvent]) -> None:
    """Add entries to the streams of locked runs."""
    await STATEMENTS["add_step_events"].run(executor, events=events)


async def count_step_jobs(executor: Executor, run: UUID) -> dict[str, StepCount]:
    """Count the jobs of each step of a run that has any."""
    found = await STATEMENTS["count_step_jobs"].run(executor, run=run)
    return {each["step"]: StepCount(each["made"], each["done"], each["live"], each["last"]) for each in found}


async def list_failed_steps(executor: Executor, run: UUID) -> list[UUID]:
    """Return the jobs of a run's steps that have ended without success."""
    return [record["id"] for record in await STATEMENTS["list_failed_steps"].run(executor, run=run)]


async def list_step_jobs(executor: Executor, run: UUID, steps: Collection[str]) -> dict[str, UUID]:
    """Return the jobs of those of the steps that have begun. A step has the one of its first element."""
    found = await STATEMENTS["list_step_jobs"].run(executor, run=run, steps=list(steps))
    return {record["step"]: record["id"] for record in found}


async def erase_steps(executor: Executor, run: UUID) -> None:
    """Erase the payload of the jobs of a locked run's steps, all of which have ended."""
    await STATEMENTS["erase_steps"].run(executor, run=run)
