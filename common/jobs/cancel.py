"""Locks a job for a request of its client, and cancels it."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.job_states import Status
from common.jobs.job import Job, read_shown_job
from common.jobs.moves import Move, Moves
from common.jobs.new_event import NewEvent
from common.postgres import statements
from common.postgres.database import Connection, Settled

STATEMENTS = statements.load("common.jobs", "cancel.sql")
MOVES = (
    Moves("cancel_queued", [Move(Status.QUEUED, Status.CANCELED)]),
    Moves("cancel_running", [Move(Status.PROCESSING, Status.CANCELING)]),
)


class LockedJob(NamedTuple):
    """A job that is locked until the transaction ends, and the database's time."""

    job: Job
    claim: int
    now: datetime


async def lock_job(connection: Connection, job_id: UUID, tenant_id: UUID) -> LockedJob | None:
    """Lock the tenant's job until the transaction ends."""
    lock = STATEMENTS["lock_job"]
    for record in await Settled(connection).fetch(lock.text, *lock.bind(job=job_id, tenant=tenant_id)):
        return LockedJob(read_shown_job(dict(record)), record["claim"], record["now"])
    return None


async def cancel_queued(connection: Connection, job_id: UUID, at: datetime, event: NewEvent) -> None:
    """Cancel a locked job that waits."""
    values = {"event_id": event.id, "event_type": event.type, "body": event.body, "sequence": event.sequence}
    traceparent = event.traceparent
    await STATEMENTS["cancel_queued"].run(connection, job=job_id, at=at, traceparent=traceparent, **values)


async def cancel_running(connection: Connection, job_id: UUID) -> None:
    """Mark a locked, running job as canceling."""
    await STATEMENTS["cancel_running"].run(connection, job=job_id)
