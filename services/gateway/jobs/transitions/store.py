"""Locks jobs, and writes their transitions: cancel, retry and erase."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.jobs import Priority, Status
from common.postgres import sql
from common.postgres.database import Connection, Database
from common.rabbitmq.wake_ups import WakeUp, job_wake_up
from common.views.job import JobRow, read_job

QUERIES = sql.load("services.gateway.jobs.transitions")


class LockedJob(NamedTuple):
    """A job that is locked until the transaction ends, and the database's time."""

    row: JobRow
    claim: int
    now: datetime
    erased: bool


class RetryableJob(NamedTuple):
    """A job that may be retried, and the bytes of its packed inputs."""

    id: UUID
    size: int


class TransitionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def lock_job(self, connection: Connection, job_id: UUID, tenant_id: UUID) -> LockedJob | None:
        """Lock the tenant's job until the transaction ends."""
        record = await connection.fetchrow(QUERIES["lock_job"], job_id, tenant_id)
        if record is None:
            return None
        return LockedJob(read_job(dict(record)), record["claim"], record["now"], record["erased_at"] is not None)

    async def cancel_queued(
        self, connection: Connection, row: JobRow, event: tuple[UUID, str, bytes, str, int]
    ) -> None:
        """Cancel a locked job that has not started: `row`. `event` is its id, type, body, traceparent and sequence."""
        await connection.execute(QUERIES["cancel_queued"], row.id, row.finished_at, *event)

    async def cancel_running(self, connection: Connection, job_id: UUID) -> None:
        """Mark a locked, running job as canceling."""
        await connection.execute(QUERIES["cancel_running"], job_id)

    async def find_retryable(
        self, tenant_id: UUID, jobs: Sequence[UUID], statuses: Sequence[Status]
    ) -> list[RetryableJob]:
        """Return those of the tenant's jobs that have one of these statuses and are not erased."""
        found = await self._database.fetch(QUERIES["find_retryable_jobs"], tenant_id, jobs, statuses)
        return [RetryableJob(*record.values()) for record in found]

    async def read_inputs(self, tenant_id: UUID, jobs: Sequence[UUID]) -> dict[UUID, bytes]:
        """Return the packed inputs of the tenant's jobs, but not of erased ones."""
        found = await self._database.fetch(QUERIES["read_packed_inputs"], tenant_id, jobs)
        return {record["job_id"]: record["tensors"] for record in found}

    async def list_job_models(self, tenant_id: UUID, jobs: Sequence[UUID]) -> list[tuple[str, str | None]]:
        """Return each model, with a fallback model, that one of the tenant's jobs has."""
        found = await self._database.fetch(QUERIES["list_job_models"], tenant_id, jobs)
        return [(record["model"], record["fallback_model"]) for record in found]

    async def retry_jobs(
        self, tenant_id: UUID, jobs: Sequence[UUID], statuses: Sequence[Status], model: str | None
    ) -> dict[UUID, WakeUp]:
        """Queue those of the jobs that have one of these statuses. Return their wake-ups, to be announced."""
        found = await self._database.fetch(QUERIES["retry_jobs"], tenant_id, jobs, statuses, model)
        return {
            each["id"]: job_wake_up(Priority(each["priority"]), each["model"], each["traceparent"]) for each in found
        }

    async def lock_events(self, connection: Connection, job_id: UUID) -> list[UUID]:
        """Lock all events of a job, then their endpoints, then their deliveries. Notifiers lock in the same order."""
        events = [record["id"] for record in await connection.fetch(QUERIES["lock_job_events"], job_id)]
        await connection.execute(QUERIES["lock_event_endpoints"], events)
        await connection.execute(QUERIES["lock_event_deliveries"], events)
        return events

    async def is_delivering(self, connection: Connection, job_id: UUID, events: Sequence[UUID]) -> bool:
        """Return whether one of the locked events is being sent, or the job has new events."""
        delivering: bool = await connection.fetchval(QUERIES["is_delivering"], job_id, events)
        return delivering

    async def erase_job(self, connection: Connection, job_id: UUID, events: Sequence[UUID]) -> None:
        """Erase the payload of a locked job, and delete its locked events."""
        await connection.execute(QUERIES["erase_job"], job_id, events)
