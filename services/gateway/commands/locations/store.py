"""The SQL statements about the locations of tenants, one function each."""

from typing import NamedTuple
from uuid import UUID

from common import ids
from common.locations.location import Location
from common.postgres import sql
from common.postgres.audit_log import AuditEntry, add_entries
from common.postgres.database import Database

QUERIES = sql.load("services.gateway.commands.locations")


class TenantLocation(NamedTuple):
    """What a tenant, by its name, may do at a location."""

    tenant: str
    location: Location
    can_read: bool
    can_write: bool


class LocationStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def allow(self, tenant_id: UUID, location: Location, *, read: bool, write: bool) -> None:
        """Let a tenant use a location, in place of what it may do there now."""
        async with self._database.transaction() as connection:
            place = tenant_id, location.bucket, location.key
            if await connection.fetchval(QUERIES["allow_location"], *place, read, write):
                uses = [*(["read"] if read else []), *(["write"] if write else [])]
                await add_entries(connection, [describe(tenant_id, "locations allow", location, uses)])

    async def revoke(self, tenant_id: UUID, location: Location) -> bool:
        """Take a location from a tenant. Return whether it had it."""
        async with self._database.transaction() as connection:
            found = await connection.fetchval(QUERIES["revoke_location"], tenant_id, location.bucket, location.key)
            if found:
                await add_entries(connection, [describe(tenant_id, "locations revoke", location, [])])
            return found is not None

    async def list(self, tenant_id: UUID | None) -> list[TenantLocation]:
        """Return the locations of all tenants, or of one."""
        found = await self._database.fetch(QUERIES["list_locations"], tenant_id)
        return [
            TenantLocation(
                record["tenant"],
                Location(record["bucket"], record["prefix"]),
                record["can_read"],
                record["can_write"],
            )
            for record in found
        ]


def describe(tenant_id: UUID, actor: str, location: Location, uses: list[str]) -> AuditEntry:
    changes = {"locations": {str(location): uses}}
    return AuditEntry(tenant_id, actor, "tenant.updated", ids.encode(ids.Kind.TENANT, tenant_id), changes)
