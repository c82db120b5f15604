"""Finds the files that jobs may read."""

from collections.abc import Collection
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.gateway.jobs.inputs", "files.sql")


class InputFileStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, tenant_id: UUID, files: Collection[UUID]) -> dict[UUID, int]:
        """Return the bytes of those of the files that jobs of the tenant may read."""
        found = await self._database.fetch(QUERIES["find_input_files"], list(files), tenant_id)
        return {record["id"]: record["size"] for record in found}
