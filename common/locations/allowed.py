"""Knows which locations operators let a tenant read and write."""

from collections.abc import Collection
from enum import StrEnum
from uuid import UUID

from common.locations.location import Location, is_within
from common.postgres import sql
from common.postgres.database import Database, to_columns

QUERIES = sql.load("common.locations", "allowed.sql")


class Use(StrEnum):
    """What a tenant wants to do at a location."""

    READ = "read"
    WRITE = "write"


class AllowedLocations:
    def __init__(self, database: Database, store_url: str) -> None:
        """`store_url` is that of Charonia's own store, where no tenant has a location, whatever an operator says."""
        self._database = database
        self._store_url = store_url

    def is_own(self, location: Location) -> bool:
        """Return whether a location is, or has, a part of Charonia's own store."""
        return is_within(location, self._store_url)

    async def find(self, tenant_id: UUID, locations: Collection[Location], use: Use) -> set[Location]:
        """Return those of the locations that the tenant may use so. Raises Unavailable."""
        wanted = [(each.bucket, each.key) for each in locations if not self.is_own(each)]
        if not wanted:
            return set()
        found = await self._database.fetch(
            QUERIES["find_allowed_locations"], tenant_id, *to_columns(wanted, 2), use is Use.WRITE
        )
        return {Location(record["bucket"], record["key"]) for record in found}
