"""The rows of files that are inputs of jobs.

The row of a large inline input comes before its file, and the job after both. So a kill at any step leaves a row that
a sweeper finds.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple
from uuid import UUID

from common.jobs.new_job import LargeInput
from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.gateway.jobs.inputs")


class StoredFile(NamedTuple):
    """The bytes of a file, and its SHA-256. None: Charonia has not hashed it itself."""

    size: int
    sha256: bytes | None = None


class InputStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_files(self, tenant_id: UUID, files: Collection[UUID]) -> dict[UUID, StoredFile]:
        """Return those of the files that jobs of the tenant may read."""
        found = await self._database.fetch(QUERIES["find_input_files"], list(files), tenant_id)
        return {record["id"]: StoredFile(record["size"], record["sha256"]) for record in found}

    async def measure(self, tenants: Collection[UUID]) -> dict[UUID, int]:
        """Return the bytes of all files of tenants that have some."""
        found = await self._database.fetch(QUERIES["measure_stored"], list(tenants))
        return {record["tenant_id"]: record["size"] for record in found}

    async def begin(self, tenant_id: UUID, inputs: Sequence[LargeInput], seconds: float) -> None:
        """Add the rows of files, which are deleted unless their jobs are added within `seconds`."""
        values = [each.id for each in inputs], [len(each.data) for each in inputs]
        await self._database.fetch(QUERIES["begin_large_inputs"], tenant_id, *values, seconds)
