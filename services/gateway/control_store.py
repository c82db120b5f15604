"""The statements that change or list jobs after they were accepted, one function each."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import sql
from common.database import Connection, Database, columns
from common.job_view import JobRow, read_job
from common.jobs import Priority, Status
from common.outbox import OutboxRow, ring_job, spread
from services.gateway.schemas import DeadFilter
from services.gateway.times import bound_optional

QUERIES = sql.load("services.gateway")


class LockedJob(NamedTuple):
    """A job that nobody else changes until the transaction ends, and the database's time."""

    row: JobRow
    now: datetime
    erased: bool


class Ended(NamedTuple):
    """A job that may begin anew; the tensors are packed."""

    id: UUID
    model: str
    tensors: bytes


class Attempt(msgspec.Struct, frozen=True):
    attempt: int
    model: str
    worker: str
    started_at: datetime
    finished_at: datetime
    status: str
    error_code: str | None
    error_message: str | None


class ControlStore:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def lock_job(self, connection: Connection, job_id: UUID, tenant_id: UUID) -> LockedJob | None:
        record = await connection.fetchrow(QUERIES["lock_job"], job_id, tenant_id)
        if record is None:
            return None
        return LockedJob(read_job(dict(record)), record["now"], record["erased_at"] is not None)

    async def cancel_queued(
        self, connection: Connection, row: JobRow, event: tuple[UUID, str, bytes], message: OutboxRow
    ) -> None:
        """`row` has its end already; `event` is its id, type and body."""
        values = (row.id, row.finished_at, *event, *spread(message))
        await connection.execute(QUERIES["cancel_queued"], *values)

    async def cancel_running(self, connection: Connection, job_id: UUID, message: OutboxRow) -> None:
        await connection.execute(QUERIES["cancel_running"], job_id, *spread(message))

    async def find_revivable(self, tenant_id: UUID, jobs: Sequence[UUID], states: Sequence[Status]) -> list[Ended]:
        found = await self.database.fetch(QUERIES["find_revivable"], tenant_id, jobs, states)
        return [Ended(*record.values()) for record in found]

    async def revive_jobs(
        self, tenant_id: UUID, jobs: Sequence[UUID], states: Sequence[Status], model: str | None
    ) -> dict[UUID, OutboxRow]:
        """The doorbells of those that began anew, to be announced."""
        async with self.database.transaction() as connection:
            found = await connection.fetch(QUERIES["revive_jobs"], tenant_id, jobs, states, model)
            rows = {
                each["id"]: ring_job(each["id"], Priority(each["priority"]), each["model"], each["traceparent"])
                for each in found
            }
            if rows:
                values = columns([spread(row) for row in rows.values()], 5)
                await connection.execute(QUERIES["add_messages"], *values)
        return rows

    async def list_attempts(self, job_id: UUID, tenant_id: UUID) -> list[Attempt]:
        found = await self.database.fetch(QUERIES["list_attempts"], job_id, tenant_id)
        return [Attempt(*record.values()) for record in found]

    async def list_dead(self, tenant_id: UUID, before: UUID | None, wanted: DeadFilter, limit: int) -> list[JobRow]:
        times = bound_optional(wanted.created_after), bound_optional(wanted.created_before)
        values = (tenant_id, before, wanted.model, wanted.error, *times, limit)
        found = await self.database.fetch(QUERIES["list_dead"], *values)
        return [read_job(dict(record)) for record in found]
