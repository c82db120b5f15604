"""Finds files that nobody needs, and removes their rows."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from common.known_files import find_known
from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.dispatcher.maintenance.files")


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


class UnneededFileStore:
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

    async def check_again(self, sizes: Mapping[UUID, int]) -> None:
        """Let files be checked once more whose object has not the size (bytes) that it had at the check."""
        await self._database.fetch(QUERIES["check_again"], [*sizes], [*sizes.values()])

    async def find_known(self, files: Sequence[UUID]) -> set[str]:
        """Return the keys of the objects of those files that have a row."""
        return await find_known(self._database, files)

    async def find_tenant(self) -> UUID | None:
        """Return the tenant that comes next in the pass over all objects; None at its end."""
        record = await self._database.fetch_one(QUERIES["find_tenant_to_sweep"])
        return record["id"] if record else None

    async def save_tenant(self, tenant_id: UUID) -> None:
        """Note that the pass is done with a tenant."""
        await self._database.fetch(QUERIES["save_swept_tenant"], tenant_id)

    async def begin_pass(self, seconds: float) -> bool:
        """Begin the next pass. Return False if the last one began less than `seconds` ago."""
        return bool(await self._database.fetch(QUERIES["begin_orphan_sweep"], seconds))
