"""The SQL statements that remove files."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.dispatcher.maintenance", "files.sql")


class ExpiredFile(NamedTuple):
    """A file whose time is over. If `expired` is false, a job still needs it, and it is kept."""

    id: UUID
    tenant_id: UUID
    expired: bool


class UncheckedFile(NamedTuple):
    """A file that its client sent to the object store. `size` is in bytes, as announced."""

    id: UUID
    tenant_id: UUID
    size: int


class ExpiredFileStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, count: int, seconds: float) -> list[ExpiredFile]:
        """Return files whose time is over, nobody else's for `seconds`. From now on no client sees the expired ones."""
        async with self._database.transaction() as connection:
            # The second statement sees every job that was committed before the locks.
            locked = [record["id"] for record in await connection.fetch(QUERIES["lock_expired_files"], count)]
            if not locked:
                return []
            found = await connection.fetch(QUERIES["claim_expired_files"], locked, seconds)
        return [ExpiredFile(*record.values()) for record in found]

    async def remove(self, ids: Sequence[UUID]) -> None:
        """Remove files whose content is gone."""
        await self._database.fetch(QUERIES["remove_files"], ids)

    async def list_unchecked(self, count: int, seconds: float) -> list[UncheckedFile]:
        """Return files that no presigned URL could write for `seconds`, and whose size nobody has checked since."""
        found = await self._database.fetch(QUERIES["list_unchecked_files"], count, seconds)
        return [UncheckedFile(*record.values()) for record in found]

    async def save_checked(self, ids: Sequence[UUID], replaced: Sequence[UUID]) -> None:
        """Note that files were checked. Those that were replaced by another size have expired."""
        await self._database.fetch(QUERIES["save_checked_files"], ids, replaced)
