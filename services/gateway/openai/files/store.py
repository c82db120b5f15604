"""The SQL statements about files with the names and purposes of OpenAI's clients, one function each."""

from collections.abc import Sequence
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Database
from services.gateway.files.store import FileRow
from services.gateway.http.pagination import Cursor

QUERIES = sql.load("services.gateway.openai.files")
USER_DATA = "user_data"  # the purpose of a file that came without one


class NamedFileStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_files(
        self, tenant_id: UUID, place: Cursor, limit: int, *, purpose: str | None, oldest_first: bool
    ) -> Sequence[FileRow]:
        """Return a tenant's files beyond a place: all, or those of a purpose. Those of jobs are left out."""
        query = QUERIES["list_oldest_named_files" if oldest_first else "list_named_files"]
        found = await self._database.fetch(query, tenant_id, purpose, *place, USER_DATA, limit)
        return [FileRow(*record.values()) for record in found]
