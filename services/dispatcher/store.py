"""The dispatcher's statements, one function each."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from common import sql
from common.database import Database, columns
from common.job_view import JobRow, read_job
from common.jobs import Failure, Priority, Status
from common.outbox import OutboxRow, ring_job, spread
from services.dispatcher.retry import MAX_INTERRUPTIONS
from services.dispatcher.triton import Model
from services.dispatcher.turns import Place

QUERIES = sql.load("services.dispatcher") | sql.load("services.dispatcher", "claims.sql")


class ClaimedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job under a claim: the view's row and what running it takes (times in seconds)."""

    row: JobRow
    claim: int
    timeout: float
    interruptions: int
    initial_delay: float
    max_delay: float
    fallback_model: str | None
    tensors: bytes | None
    parameters: bytes | None
    wants_started: bool


class Event(msgspec.Struct, frozen=True):
    """An event to record, with its webhook body and its doorbell."""

    id: UUID
    type: str
    body: bytes
    message: OutboxRow


class Start(NamedTuple):
    """An attempt that began, and the event that says so."""

    row: JobRow
    at: datetime
    event: Event


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ends; `was` and `claim` are the fence."""

    id: UUID
    claim: int
    was: Literal["running", "queued"]
    model: str
    status: Status
    finished_at: datetime
    event: Event
    version: str | None = None
    failure: Failure | None = None
    inference_ms: float | None = None
    outputs: bytes | None = None


class Requeue(msgspec.Struct, frozen=True, kw_only=True):
    """How a job goes back to the queue; `claim` is the fence, `delay` is in seconds."""

    id: UUID
    claim: int
    failure: Failure
    delay: float = 0.0
    given_back: bool = False  # the attempt does not count
    interrupted: bool = False  # Triton went away under it, which happens to a job only so often
    refused: bool = False  # it never began, so the job may still expire
    fallback: str | None = None


class Step(NamedTuple):
    """A response of a running job's model; numbers count from 1, `outputs` is the JSON list of the API."""

    job_id: UUID
    claim: int
    number: int
    outputs: bytes


def read_claimed(record: object) -> ClaimedJob:
    values = dict(record)  # type: ignore[call-overload]
    own = {name: values[name] for name in ClaimedJob.__struct_fields__ if name != "row"}
    return ClaimedJob(row=read_job(values), **own)


class Claimed(NamedTuple):
    """Jobs in the order of their turns; `contended` where there was room for more, and somebody else held them."""

    jobs: list[ClaimedJob]
    contended: bool


class Mark(NamedTuple):
    """A place in the order in which jobs ended."""

    finished_at: datetime
    id: UUID


class Bite(NamedTuple):
    """How many ended jobs were looked at, how many of them removed, and where the next look begins."""

    seen: int
    removed: int
    last: Mark


class Due(NamedTuple):
    """Doorbells written for jobs that are due, and the jobs whose model is no longer in the catalogue."""

    rung: list[OutboxRow]
    stranded: list[UUID]


OLDEST = Mark(datetime.fromtimestamp(0, UTC), UUID(int=0))


class Store:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def claim_jobs(
        self,
        model: str,
        priority: Priority,
        count: int,
        last: Place,
        running: Mapping[UUID, int],
        worker: str,
        lease: float,
    ) -> Claimed:
        """Up to `count` jobs, fairly: `running` is what each tenant has under way."""
        try:
            found = await self.database.fetch(
                QUERIES["claim_jobs"],
                *(model, priority, count, last.tenant, list(running), list(running.values())),
                *(worker, lease, MAX_INTERRUPTIONS, last.job),
            )
        except asyncpg.UniqueViolationError:  # somebody claimed a suspect at the same time (jobs_one_suspect)
            return Claimed([], True)
        return Claimed([read_claimed(record) for record in found if record["id"]], found[0]["contended"])

    async def record_events(self, starts: Sequence[Start]) -> None:
        rows = [
            (event.id, row.tenant_id, row.id, row.model, event.type, at, event.body, *spread(event.message))
            for row, at, event in starts
        ]
        await self.database.fetch(QUERIES["record_events"], *columns(rows, 12))

    async def end_jobs(self, ends: Sequence[End]) -> set[UUID]:
        """The ids of the events that were recorded."""
        rows = [
            (
                *(end.id, end.claim, end.was, end.status, end.version, *spread_failure(end.failure)),
                *(end.inference_ms, end.finished_at, end.outputs),
                *(end.event.id, end.event.type, end.event.body, *spread(end.event.message)),
            )
            for end in ends
        ]
        found = await self.database.fetch(QUERIES["end_jobs"], *columns(rows, 19))
        return {record["event_id"] for record in found}

    async def add_steps(self, steps: Sequence[Step]) -> None:
        await self.database.fetch(QUERIES["add_steps"], *columns(steps, 4))

    async def requeue_jobs(self, requeues: Sequence[Requeue]) -> set[UUID]:
        rows = [
            (
                *(back.id, back.claim, back.delay, back.given_back, back.fallback),
                *(*spread_failure(back.failure), back.interrupted, back.refused),
            )
            for back in requeues
        ]
        found = await self.database.fetch(QUERIES["requeue_jobs"], *columns(rows, 10))
        return {record["id"] for record in found}

    async def renew_leases(self, claims: Sequence[tuple[UUID, int]], lease: float) -> dict[UUID, bool]:
        """Those still held, each with whether it is to be canceled."""
        found = await self.database.fetch(QUERIES["renew_leases"], *columns(claims, 2), lease)
        return {record["id"]: record["canceling"] for record in found}

    async def find_abandoned(self, limit: int) -> list[tuple[ClaimedJob, datetime]]:
        """Each with the database's time."""
        found = await self.database.fetch(QUERIES["find_abandoned"], limit)
        return [(read_claimed(record), record["now"]) for record in found]

    async def find_expired(self, limit: int) -> list[tuple[ClaimedJob, datetime]]:
        """Each with the database's time."""
        found = await self.database.fetch(QUERIES["find_expired"], limit)
        return [(read_claimed(record), record["now"]) for record in found]

    async def ring_due(self, limit: int) -> Due:
        """Writes a doorbell for each job whose turn it is, and returns them to be announced."""
        async with self.database.transaction() as connection:
            due = await connection.fetch(QUERIES["take_unrung"], limit)
            rows = [
                ring_job(record["id"], Priority(record["priority"]), record["model"], record["traceparent"])
                for record in due
                if record["known"]
            ]
            if rows:
                await connection.execute(QUERIES["add_messages"], *columns([spread(row) for row in rows], 5))
        return Due(rows, [record["id"] for record in due if not record["known"]])

    async def find_queued(self, jobs: Sequence[UUID]) -> list[tuple[ClaimedJob, datetime]]:
        """Each with the database's time."""
        found = await self.database.fetch(QUERIES["find_queued"], jobs)
        return [(read_claimed(record), record["now"]) for record in found]

    async def purge_jobs(self, age: float, limit: int, after: Mark = OLDEST) -> Bite:
        """Removes jobs that ended longer ago (seconds) and behind a mark; looks at no more than the limit."""
        record = await self.database.fetch_one(QUERIES["purge_jobs"], age, limit, *after)
        if record is None:
            return Bite(0, 0, OLDEST)
        return Bite(record["seen"], record["removed"], Mark(record["finished_at"], record["id"]))

    async def purge_keys(self, limit: int) -> int:
        """How many idempotency keys were removed that are a day old."""
        return len(await self.database.fetch(QUERIES["purge_keys"], limit))

    async def save_models(self, models: Sequence[tuple[Model, bool]]) -> None:
        """Each model with whether it is ready."""
        rows = [
            (
                *(model.name, model.version, ready, model.decoupled, model.max_batch_size, model.instances),
                *(msgspec.json.encode(model.inputs).decode(), msgspec.json.encode(model.outputs).decode()),
            )
            for model, ready in models
        ]
        await self.database.fetch(QUERIES["save_models"], *columns(rows, 8))

    async def retire_models(self, grace: float) -> list[tuple[str, str]]:
        """Names and versions of those that no Triton has had for so long (seconds)."""
        found = await self.database.fetch(QUERIES["retire_models"], grace)
        return [(record["name"], record["version"]) for record in found]


def spread_failure(failure: Failure | None) -> tuple[object, ...]:
    return (None, None, None) if failure is None else (failure.code, failure.message, failure.retryable)
