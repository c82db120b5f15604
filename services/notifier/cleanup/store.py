"""Deletes rows that no delivery needs. Each function returns how many it deleted."""

from collections.abc import Sequence
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Connection, Database

QUERIES = sql.load("services.notifier.cleanup")


async def delete_old_recoveries(database: Database, age: float, limit: int) -> int:
    """Delete completed recoveries older than `age` seconds."""
    return len(await database.fetch(QUERIES["delete_old_recoveries"], age, limit))


async def delete_expired_secrets(database: Database) -> int:
    """Delete rotated secrets that no longer sign."""
    return len(await database.fetch(QUERIES["delete_expired_secrets"]))


async def delete_unused_endpoints(database: Database, limit: int) -> int:
    """Delete callback endpoints that have no delivery."""
    async with database.transaction() as connection:
        return len(await delete_locked_endpoints(connection, await lock_unused_endpoints(connection, limit)))


async def lock_unused_endpoints(connection: Connection, limit: int) -> list[UUID]:
    """Lock callback endpoints that have no delivery. Return their ids."""
    return [record["id"] for record in await connection.fetch(QUERIES["lock_unused_endpoints"], limit)]


async def delete_locked_endpoints(connection: Connection, endpoints: Sequence[UUID]) -> list[UUID]:
    """Delete those of these locked endpoints that have no delivery. Return their ids."""
    return [record["id"] for record in await connection.fetch(QUERIES["delete_unused_endpoints"], endpoints)]
