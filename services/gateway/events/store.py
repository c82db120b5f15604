"""Reads the history of jobs, and the snapshots that show whether a job has changed."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.job_states import Status, read_text
from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.gateway.events")


class JobSnapshot(NamedTuple):
    """A job's progress. It differs after every event of the job. A completed batch has `succeeded`.

    A job that waits for a twin has the twin's claim and steps.
    """

    status: Status
    claim: int
    steps: int
    twin: UUID | None = None


class EventPosition(NamedTuple):
    """The position of an event in its job's history. START is before all of them."""

    claim: int
    number: int


START = EventPosition(-1, 0)


class HistoryRow(NamedTuple):
    """An event of a job. `body` is a response's outputs, or the webhook body of a terminal event.

    A body that is too large for a page is left out. `size` is its size in bytes all the same. `is_shared`: the job may
    share its files with others.
    """

    position: EventPosition
    type: str
    at: datetime
    body: bytes | None
    attempt: int | None
    model: str | None
    error_code: str | None
    error_message: str | None
    size: int = 0
    is_shared: bool = False

    @property
    def lacks_body(self) -> bool:
        return self.body is None and self.size > 0


class EventStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_snapshots(self, jobs: Sequence[UUID]) -> dict[UUID, JobSnapshot]:
        """Return the snapshots of the jobs and batches that exist."""
        return {
            record["id"]: JobSnapshot(
                read_text(Status, record["status"]), record["claim"], record["steps"], record["twin"]
            )
            for record in await self._database.fetch(QUERIES["find_snapshots"], jobs)
        }

    async def find_revoked(self, keys: Collection[UUID]) -> set[UUID]:
        """Return the API keys among these that were revoked."""
        return {record["id"] for record in await self._database.fetch(QUERIES["find_revoked"], list(keys))}

    async def find_traceparent(self, job_id: UUID, tenant_id: UUID) -> str | None:
        """Return the traceparent of the tenant's job, or None if there is no such job."""
        record = await self._database.fetch_one(QUERIES["find_traceparent"], job_id, tenant_id)
        return None if record is None else record["traceparent"]

    async def list_history(self, job_id: UUID, after: EventPosition, limit: int, size: int) -> list[HistoryRow]:
        """Return the events after a position, oldest first, until the bodies reach `size` bytes.

        A single body over `size` is left out.
        """
        found = await self._database.fetch(QUERIES["list_history"], job_id, *after, limit, size)
        return [HistoryRow(EventPosition(claim, number), *rest) for claim, number, *rest in found]

    async def read_response(self, job_id: UUID, position: EventPosition) -> bytes | None:
        """Return the outputs of a response, or None if it was erased."""
        record = await self._database.fetch_one(QUERIES["read_response"], job_id, *position)
        return None if record is None else record["outputs"]
