"""The SQL statements about tenants, API keys and rate limits, one function each."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from common import ids
from common.postgres import sql
from common.postgres.audit_log import AuditEntry, add_entries
from common.postgres.database import Database, to_columns
from common.views.job import format_time
from services.gateway.auth.scopes import ALL, Scope, read_scopes

QUERIES = sql.load("services.gateway.auth")


class Key(NamedTuple):
    """An API key that is not revoked, with its tenant and scopes."""

    id: UUID
    tenant_id: UUID
    scopes: frozenset[Scope] = ALL
    rate_limit: int | None = None  # requests a second; 0 for no limit; None for the gateway's default
    models: tuple[str, ...] | None = None  # patterns of those it may run; None for every model
    stale: bool = False  # its last use must be noted again
    expires_in: float | None = None  # seconds since it was read; None: never
    makers: tuple[UUID, ...] = ()  # the keys that made it, the first one first; it shares their rates
    maker_limits: tuple[int | None, ...] = ()  # of the makers, like `rate_limit`

    @property
    def actor(self) -> str:
        """Return its public id, as the audit log shows it."""
        return ids.encode(ids.Kind.KEY, self.id)

    @property
    def has_expired(self) -> bool:
        return self.expires_in is not None and self.expires_in <= 0


class KeyRow(msgspec.Struct, frozen=True):
    """An API key as it is listed."""

    id: UUID
    tenant: str
    name: str
    scopes: list[str]
    models: list[str] | None
    rate_limit: int | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    made_by: UUID | None  # a key; None: an operator made it


class Taken(NamedTuple):
    """Permits taken from a bucket, and the seconds until the bucket is full again."""

    permits: int
    full_in: float


class KeyStore:
    """API keys and the tenants they belong to."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_keys(self, hashes: Sequence[bytes]) -> dict[bytes, Key]:
        """Return the keys that are not revoked, by their hash."""
        found = await self._database.fetch(QUERIES["find_keys"], hashes)
        return {record["key_hash"]: read_key(record) for record in found}

    async def note_uses(self, keys: Sequence[UUID]) -> None:
        """Set the time of the keys' last use to now."""
        await self._database.fetch(QUERIES["note_uses"], keys)

    async def add_key(
        self,
        key_id: UUID,
        tenant_id: UUID,
        name: str,
        key_hash: bytes,
        scopes: Collection[Scope] = ALL,
        rate_limit: int | None = None,
        models: Sequence[str] | None = None,
        expires_at: datetime | None = None,
        *,
        makers: Sequence[UUID] = (),
        actor: str,
    ) -> None:
        """Add a key; does nothing if the hash exists already, or one of its makers is revoked.

        `makers` are the keys that made it, the first one first.
        """
        listed = sorted(str(scope) for scope in scopes)
        values = key_id, tenant_id, name, key_hash, listed, rate_limit, models, expires_at, list(makers)
        until = None if expires_at is None else format_time(expires_at)
        fields = {"name": name, "scopes": listed, "rate_limit": rate_limit, "models": models, "expires_at": until}
        given = {field: value for field, value in fields.items() if value is not None}
        async with self._database.transaction() as connection:
            if await connection.fetchval(QUERIES["add_key"], *values) is not None:
                entry = AuditEntry(tenant_id, actor, "key.created", ids.encode(ids.Kind.KEY, key_id), given)
                await add_entries(connection, [entry])

    async def list_keys(self, tenant_id: UUID | None) -> list[KeyRow]:
        """Return the keys of one tenant, or of all tenants."""
        return [KeyRow(*record.values()) for record in await self._database.fetch(QUERIES["list_keys"], tenant_id)]

    async def list_active(self, tenant_id: UUID, after: UUID, limit: int) -> list[KeyRow]:
        """Return the tenant's keys that are not revoked, after an id, in order of id."""
        found = await self._database.fetch(QUERIES["list_active_keys"], tenant_id, after, limit)
        return [KeyRow(*record.values()) for record in found]

    async def find_active(self, key_id: UUID, tenant_id: UUID) -> KeyRow | None:
        """Return the tenant's key, or None if there is no such key, or it is revoked."""
        record = await self._database.fetch_one(QUERIES["find_active_key"], key_id, tenant_id)
        return None if record is None else KeyRow(*record.values())

    async def count_active(self, tenant_id: UUID) -> int:
        """Return how many keys of the tenant are neither revoked nor expired."""
        record = await self._database.fetch_one(QUERIES["count_active_keys"], tenant_id)
        return record["count"] if record else 0

    async def revoke_own(self, key_id: UUID, tenant_id: UUID, *, actor: str) -> bool:
        """Revoke a key of a tenant, and those that it made. Return False without one that is not revoked."""
        async with self._database.transaction() as connection:
            revoked = await connection.fetch(QUERIES["revoke_own_key"], key_id, tenant_id)
            await add_entries(connection, [note_revoked(tenant_id, record["id"], actor) for record in revoked])
            return bool(revoked)

    async def revoke(self, key_id: UUID, *, actor: str) -> bool:
        """Revoke a key, and those that it made; return whether it exists. Revoking it again changes nothing."""
        async with self._database.transaction() as connection:
            await connection.execute(QUERIES["lock_key"], key_id)
            revoked = await connection.fetch(QUERIES["revoke_key"], key_id)
            await add_entries(connection, [note_revoked(each["tenant_id"], each["id"], actor) for each in revoked])
            return bool(revoked) or bool(await connection.fetchval(QUERIES["has_key"], key_id))

    async def add_tenant(self, tenant_id: UUID, name: str, sealed_secret: bytes, *, actor: str) -> None:
        """Add a tenant; does nothing if the name exists already."""
        async with self._database.transaction() as connection:
            if await connection.fetchval(QUERIES["add_tenant"], tenant_id, name, sealed_secret) is not None:
                target = ids.encode(ids.Kind.TENANT, tenant_id)
                await add_entries(connection, [AuditEntry(tenant_id, actor, "tenant.created", target, {"name": name})])

    async def find_tenant(self, name: str) -> UUID | None:
        """Return the id of the tenant with this name."""
        record = await self._database.fetch_one(QUERIES["find_tenant"], name)
        return record["id"] if record else None

    async def set_max_queued(self, tenant_id: UUID, limit: int | None, *, actor: str) -> None:
        """Set a tenant's queue limit; None restores the gateway's default."""
        async with self._database.transaction() as connection:
            if await connection.fetchval(QUERIES["set_max_queued"], tenant_id, limit) is not None:
                target, changes = ids.encode(ids.Kind.TENANT, tenant_id), {"max_queued": limit}
                await add_entries(connection, [AuditEntry(tenant_id, actor, "tenant.updated", target, changes)])

    async def find_max_queued(self, tenant_id: UUID) -> int | None:
        """Return a tenant's own queue limit, if it has one."""
        record = await self._database.fetch_one(QUERIES["find_max_queued"], tenant_id)
        return record["max_queued"] if record else None


class RateLimitStore:
    """The buckets of permits that all gateways share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take_permits(self, wanted: Sequence[tuple[UUID, int, int]]) -> dict[UUID, Taken]:
        """Take permits for each (key, permits, permits a second); keys without a bucket are left out."""
        found = await self._database.fetch(QUERIES["take_permits"], *to_columns(wanted, 3))
        return {record["key_id"]: Taken(record["permits"], record["full_in"]) for record in found}

    async def add_buckets(self, keys: Sequence[UUID]) -> None:
        """Add a full bucket for each key that has none."""
        await self._database.fetch(QUERIES["add_buckets"], keys)


def read_key(record: asyncpg.Record) -> Key:
    scopes = read_scopes(record["scopes"])
    models = None if record["models"] is None else tuple(record["models"])
    own = record["id"], record["tenant_id"], scopes, record["rate_limit"], models
    makers, limits = tuple(record["makers"]), tuple(record["maker_limits"])
    return Key(*own, record["stale"], expires_in=record["expires_in"], makers=makers, maker_limits=limits)


def note_revoked(tenant_id: UUID, key_id: UUID, actor: str) -> AuditEntry:
    return AuditEntry(tenant_id, actor, "key.revoked", ids.encode(ids.Kind.KEY, key_id))
