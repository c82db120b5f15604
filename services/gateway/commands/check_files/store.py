"""The SQL statements that compare files with the object store, one function each."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from common.known_files import find_known
from common.object_store.keys import file_key
from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.gateway.commands.check_files")


class CompleteFile(NamedTuple):
    """A file whose object must be in the store."""

    id: UUID
    tenant_id: UUID
    size: int

    @property
    def key(self) -> str:
        return file_key(self.tenant_id, self.id)


class FileCheckStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_known(self, ids: Sequence[UUID]) -> set[str]:
        """Return the keys of the objects of those files that have a row."""
        return await find_known(self._database, ids)

    async def list_complete(self, after: UUID, age: timedelta, count: int) -> list[CompleteFile]:
        """Return the next files that have been complete for this time."""
        found = await self._database.fetch(QUERIES["list_complete_files"], after, age.total_seconds(), count)
        return [CompleteFile(*record.values()) for record in found]

    async def find_complete(self, ids: Sequence[UUID]) -> set[CompleteFile]:
        """Return those of the files that are complete now."""
        return {
            CompleteFile(*record.values()) for record in await self._database.fetch(QUERIES["find_complete_files"], ids)
        }

    async def give_up(self, ids: Sequence[UUID], age: timedelta) -> set[UUID]:
        """Let sweepers delete those of the files that have been complete for this time. Return their ids."""
        found = await self._database.fetch(QUERIES["give_up_files"], ids, age.total_seconds())
        return {record["id"] for record in found}
