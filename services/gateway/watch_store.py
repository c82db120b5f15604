"""The statements about what happened to jobs, one function each."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common import sql
from common.database import Database
from common.jobs import Status

QUERIES = sql.load("services.gateway", "watch.sql")


class Stamp(NamedTuple):
    """What changes whenever something happens to a job."""

    status: Status
    claim: int
    steps: int


class Place(NamedTuple):
    """Where an event is in its job's story; before all others is START."""

    claim: int
    number: int


START = Place(-1, 0)


class Told(NamedTuple):
    """Something that happened to a job. `body` is a response's outputs, or the webhook's body of an end."""

    place: Place
    type: str
    at: datetime
    body: bytes | None
    attempt: int | None
    model: str | None
    error_code: str | None
    error_message: str | None


class WatchStore:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def find_stamps(self, jobs: Sequence[UUID]) -> dict[UUID, Stamp]:
        found = await self.database.fetch(QUERIES["find_stamps"], jobs)
        return {record["id"]: Stamp(Status(record["status"]), record["claim"], record["steps"]) for record in found}

    async def find_revoked(self, keys: Collection[UUID]) -> set[UUID]:
        return {record["id"] for record in await self.database.fetch(QUERIES["find_revoked"], list(keys))}

    async def find_owned(self, job_id: UUID, tenant_id: UUID) -> str | None:
        """The traceparent of a job that is the tenant's."""
        record = await self.database.fetch_one(QUERIES["find_owned"], job_id, tenant_id)
        return None if record is None else record["traceparent"]

    async def tell_story(self, job_id: UUID, after: Place, limit: int, size: int) -> list[Told]:
        """What happened to a job behind a place, oldest first; nothing more once there are `size` bytes of it."""
        found = await self.database.fetch(QUERIES["tell_story"], job_id, *after, limit, size)
        return [Told(Place(claim, number), *rest) for claim, number, *rest in found]
