"""Locks on endpoints, and the time of each endpoint's next check."""

import math
from collections.abc import Sequence
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Connection

QUERIES = sql.load("services.notifier.endpoints")
NEVER = math.inf


async def lock_endpoints(connection: Connection, endpoints: Sequence[UUID]) -> None:
    """Lock endpoints before changing their deliveries."""
    await connection.execute(QUERIES["lock_endpoints"], endpoints)


async def reschedule_endpoints(connection: Connection, endpoints: Sequence[UUID], concurrency: int) -> float:
    """Set the next check of locked endpoints after changing their deliveries.

    Return the seconds until the first check: 0 for now, NEVER for none.
    """
    wait: float | None = await connection.fetchval(QUERIES["reschedule_endpoints"], endpoints, concurrency)
    return NEVER if wait is None else max(wait, 0.0)


async def make_endpoint_due(connection: Connection, endpoint: UUID) -> None:
    """Check a locked endpoint as soon as its circuit and rate limit allow."""
    await connection.execute(QUERIES["make_endpoint_due"], endpoint)
