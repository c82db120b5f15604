"""Reads and writes how far the pass over the objects of all tenants is."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from common.known_files import find_known
from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.dispatcher.maintenance", "orphans.sql")


class OrphanStore:
    """The SQL statements about orphans, one method each."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_tenant(self) -> UUID | None:
        """Return the tenant that comes next in the pass; None at its end."""
        record = await self._database.fetch_one(QUERIES["find_tenant_to_sweep"])
        return record["id"] if record else None

    async def save_tenant(self, tenant_id: UUID) -> None:
        """Note that the pass is done with a tenant."""
        await self._database.fetch(QUERIES["save_swept_tenant"], tenant_id)

    async def begin_pass(self, seconds: float) -> bool:
        """Begin the next pass. Return False if the last one began less than `seconds` ago."""
        return bool(await self._database.fetch(QUERIES["begin_orphan_sweep"], seconds))

    async def check_again(self, sizes: Mapping[UUID, int]) -> None:
        """Let files be checked once more whose object has not the size (bytes) that it had at the check."""
        await self._database.fetch(QUERIES["check_again"], [*sizes], [*sizes.values()])

    async def find_known(self, files: Sequence[UUID]) -> set[str]:
        """Return the keys of the objects of those files that have a row."""
        return await find_known(self._database, files)
