"""Cancels deliveries of disabled subscriptions, and deletes those of deleted ones."""

from typing import NamedTuple
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Connection, Database
from services.notifier.endpoints.store import lock_endpoints, reschedule_endpoints

QUERIES = sql.load("services.notifier.ended_subscriptions")


class CancelingEndpoint(NamedTuple):
    """An endpoint whose subscription was disabled or deleted, and may have deliveries left."""

    id: UUID
    deleted: bool


async def find_canceling(database: Database, limit: int) -> list[CancelingEndpoint]:
    return [CancelingEndpoint(**record) for record in await database.fetch(QUERIES["find_canceling"], limit)]


async def cancel_deliveries(database: Database, endpoint: UUID, limit: int) -> int:
    """Cancel deliveries that waited when the subscription was disabled. Return how many."""
    return len(await database.fetch(QUERIES["cancel_deliveries"], endpoint, limit))


async def delete_deliveries(database: Database, endpoint: UUID, limit: int) -> int:
    """Delete deliveries of a deleted subscription's endpoint. Return how many."""
    return len(await database.fetch(QUERIES["delete_deliveries"], endpoint, limit))


async def end_canceling(connection: Connection, endpoint: UUID, endpoint_concurrency: int) -> bool:
    """Let an endpoint without deliveries to cancel send again. Return False if some are left."""
    await lock_endpoints(connection, [endpoint])
    if await connection.fetchval(QUERIES["end_canceling"], endpoint) is None:
        return False
    await reschedule_endpoints(connection, [endpoint], endpoint_concurrency)
    return True
