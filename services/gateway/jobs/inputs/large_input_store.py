"""The rows of files with large inputs of jobs.

A row comes before its file, and the job after both. So a kill at any step leaves a row that a sweeper finds.
"""

from collections.abc import Collection, Sequence
from http import HTTPStatus
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Connection, Database, to_columns
from services.gateway.http.problems import LATER, Problem
from services.gateway.jobs.store import LargeInput, NewJob

QUERIES = sql.load("services.gateway.jobs.inputs", "large_inputs.sql")


class LargeInputStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def measure(self, tenants: Collection[UUID]) -> dict[UUID, int]:
        """Return the bytes of all files of tenants that have some."""
        found = await self._database.fetch(QUERIES["measure_stored"], list(tenants))
        return {record["tenant_id"]: record["size"] for record in found}

    async def begin(self, tenant_id: UUID, inputs: Sequence[LargeInput], seconds: float) -> None:
        """Add the rows of files, which are deleted unless their jobs are added within `seconds`."""
        values = [each.id for each in inputs], [len(each.data) for each in inputs]
        await self._database.fetch(QUERIES["begin_large_inputs"], tenant_id, *values, seconds)

    async def drop(self, inputs: Sequence[LargeInput]) -> None:
        """Let a sweeper delete those of the files that no job got."""
        await self._database.fetch(QUERIES["drop_large_inputs"], [each.id for each in inputs])


async def keep_large_inputs(connection: Connection, jobs: Sequence[NewJob], added: Collection[UUID]) -> None:
    """Give the files of the added jobs to them, and let a sweeper delete those of the other jobs.

    Raises Problem (503), so that no job is added, if a sweeper has taken a file.
    """
    if rows := [(large.id, job.id, large.sha256) for job in jobs if job.id in added for large in job.large_inputs]:
        kept = await connection.fetch(QUERIES["keep_large_inputs"], *to_columns(rows, 3))
        if len(kept) < len(rows):
            raise too_late()
    if dropped := [large.id for job in jobs if job.id not in added for large in job.large_inputs]:
        await connection.execute(QUERIES["drop_large_inputs"], dropped)


def too_late() -> Problem:
    text = "storing the job's inputs took too long, and they were given up; send the request again"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers=LATER)
