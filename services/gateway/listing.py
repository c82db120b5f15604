"""The lists of a tenant's jobs."""

from datetime import datetime
from uuid import UUID

import msgspec

from common import sql
from common.database import Database
from common.job_view import JobRow, read_job
from common.jobs import Status
from services.gateway.cursors import Place
from services.gateway.times import EARLIEST, LATEST, bound_optional

QUERIES = sql.load("services.gateway", "listing.sql")
EVERY = tuple(Status)
LEAST_ID = UUID(int=0)


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs; what is left out is open."""

    status: Status | None = None
    model: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    batch_id: UUID | None = None


class JobLister:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def list(self, tenant_id: UUID, wanted: JobFilter, behind: Place | None, limit: int) -> list[JobRow]:
        """Newest first, from behind a place on; outputs and webhooks are not looked up."""
        states = [wanted.status] if wanted.status else EVERY
        begin = Place(bound_optional(wanted.created_before) or LATEST, LEAST_ID)  # before all of that time itself
        begin = begin if behind is None else min(begin, behind)
        values = (tenant_id, states, *begin, bound_optional(wanted.created_after) or EARLIEST, limit)
        if wanted.batch_id is not None:
            found = await self.database.fetch(QUERIES["list_jobs_of_batch"], *values, wanted.batch_id, wanted.model)
        elif wanted.model is None:
            found = await self.database.fetch(QUERIES["list_jobs"], *values)
        else:
            found = await self.database.fetch(QUERIES["list_jobs_of_model"], *values, wanted.model)
        return [read_job(dict(record)) for record in found]
