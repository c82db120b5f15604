"""The rows of files with large inputs of jobs.

A row comes before its file, and the job after both. So a kill at any step leaves a row that a sweeper finds.
"""

from collections.abc import Collection, Sequence
from uuid import UUID

from common.jobs.input_files import drop_large_inputs
from common.jobs.new_job import LargeInput
from common.postgres import sql
from common.postgres.database import Database

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
        await drop_large_inputs(self._database, [each.id for each in inputs])
