"""Deletes rows that no delivery needs. Each function returns how many it deleted."""

from common.postgres import sql
from common.postgres.database import Connection, Database

QUERIES = sql.load("services.notifier.store", "cleanup.sql")


async def delete_old_events(database: Database, age: float, limit: int) -> int:
    """Delete operational events older than `age` seconds."""
    return len(await database.fetch(QUERIES["delete_old_events"], age, limit))


async def delete_old_recoveries(database: Database, age: float, limit: int) -> int:
    """Delete completed recoveries older than `age` seconds."""
    return len(await database.fetch(QUERIES["delete_old_recoveries"], age, limit))


async def delete_expired_secrets(database: Database) -> int:
    """Delete rotated secrets that no longer sign."""
    return len(await database.fetch(QUERIES["delete_expired_secrets"]))


async def delete_unused_endpoints(connection: "Connection | Database", limit: int) -> int:
    """Delete callback endpoints that have no delivery."""
    return len(await connection.fetch(QUERIES["delete_unused_endpoints"], limit))
