"""The statements of the command for keys, one function each."""

from datetime import datetime
from uuid import UUID

import msgspec

from common import sql
from common.database import Database

QUERIES = sql.load("services.gateway", "keys.sql")


class KeyRow(msgspec.Struct, frozen=True):
    id: UUID
    tenant: str
    name: str
    scopes: list[str]
    rate_limit: int | None
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


class KeyStore:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def list(self, tenant_id: UUID | None) -> list[KeyRow]:
        """A tenant's, or all."""
        return [KeyRow(*record.values()) for record in await self.database.fetch(QUERIES["list_keys"], tenant_id)]

    async def revoke(self, key_id: UUID) -> bool:
        """Whether there is such a key."""
        return await self.database.fetch_one(QUERIES["revoke_key"], key_id) is not None

    async def set_max_queued(self, tenant_id: UUID, limit: int | None) -> None:
        """None for as many as the gateway is set to."""
        await self.database.fetch(QUERIES["set_max_queued"], tenant_id, limit)

    async def find_max_queued(self, tenant_id: UUID) -> int | None:
        record = await self.database.fetch_one(QUERIES["find_max_queued"], tenant_id)
        return record["max_queued"] if record else None
