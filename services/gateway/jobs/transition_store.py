"""Locks jobs, and writes their transitions: cancel, retry and erase."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.jobs import Priority, Status
from common.outbox import OutboxRow, job_wake_up, to_values
from common.postgres import sql
from common.postgres.database import Connection, Database, to_columns
from common.views.job import JobRow, read_job

QUERIES = sql.load("services.gateway.jobs", "transitions.sql")


class LockedJob(NamedTuple):
    """A job that is locked until the transaction ends, and the database's time."""

    row: JobRow
    now: datetime
    erased: bool


class RetryableJob(NamedTuple):
    """A job that may be retried. `tensors` are packed."""

    id: UUID
    model: str
    tensors: bytes


class TransitionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def lock_job(self, connection: Connection, job_id: UUID, tenant_id: UUID) -> LockedJob | None:
        """Lock the tenant's job until the transaction ends."""
        record = await connection.fetchrow(QUERIES["lock_job"], job_id, tenant_id)
        if record is None:
            return None
        return LockedJob(read_job(dict(record)), record["now"], record["erased_at"] is not None)

    async def cancel_queued(
        self, connection: Connection, row: JobRow, event: tuple[UUID, str, bytes], message: OutboxRow
    ) -> None:
        """Cancel a locked job that has not started. `row` is the canceled job, `event` its id, type and body."""
        values = (row.id, row.finished_at, *event, *to_values(message))
        await connection.execute(QUERIES["cancel_queued"], *values)

    async def cancel_running(self, connection: Connection, job_id: UUID, message: OutboxRow) -> None:
        """Mark a locked, running job as canceling. `message` is for its dispatcher."""
        await connection.execute(QUERIES["cancel_running"], job_id, *to_values(message))

    async def find_retryable(
        self, tenant_id: UUID, jobs: Sequence[UUID], statuses: Sequence[Status]
    ) -> list[RetryableJob]:
        """Return those of the tenant's jobs that have one of these statuses and are not erased."""
        found = await self._database.fetch(QUERIES["find_retryable_jobs"], tenant_id, jobs, statuses)
        return [RetryableJob(*record.values()) for record in found]

    async def retry_jobs(
        self, tenant_id: UUID, jobs: Sequence[UUID], statuses: Sequence[Status], model: str | None
    ) -> dict[UUID, OutboxRow]:
        """Queue those of the jobs that have one of these statuses. Return their messages, to be announced."""
        async with self._database.transaction() as connection:
            found = await connection.fetch(QUERIES["retry_jobs"], tenant_id, jobs, statuses, model)
            rows = {
                each["id"]: job_wake_up(each["id"], Priority(each["priority"]), each["model"], each["traceparent"])
                for each in found
            }
            if rows:
                values = to_columns([to_values(row) for row in rows.values()], 5)
                await connection.execute(QUERIES["add_messages"], *values)
        return rows

    async def lock_events(self, connection: Connection, job_id: UUID) -> list[UUID]:
        """Lock all events of a job, then their endpoints. Notifiers lock in the same order."""
        events = [record["id"] for record in await connection.fetch(QUERIES["lock_job_events"], job_id)]
        await connection.execute(QUERIES["lock_event_endpoints"], events)
        return events

    async def is_delivering(self, connection: Connection, job_id: UUID, events: Sequence[UUID]) -> bool:
        """Return whether one of the locked events is being sent, or the job has new events."""
        delivering: bool = await connection.fetchval(QUERIES["is_delivering"], job_id, events)
        return delivering

    async def erase_job(self, connection: Connection, job_id: UUID, events: Sequence[UUID]) -> None:
        """Erase the payload of a locked job, and delete its locked events."""
        await connection.execute(QUERIES["erase_job"], job_id, events)
