"""Re-queues failed deliveries."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Connection, Settled

QUERIES = sql.load("services.notifier.recovery")


class DueRecovery(NamedTuple):
    id: UUID
    webhook_id: UUID  # also its endpoint's id


class RecoveryState(NamedTuple):
    """A recovery under way. `last_delivery_id` is the last one it re-sent."""

    id: UUID
    webhook_id: UUID
    since: datetime
    until: datetime
    last_delivery_id: UUID | None


class DeliverySelection(NamedTuple):
    """Deliveries to re-queue: ids between `after` and `before`, created from `since` to before `until`."""

    endpoint_id: UUID
    after: UUID
    before: UUID
    since: datetime
    until: datetime
    except_type: str
    limit: int


async def find_next_recovery(connection: Connection) -> DueRecovery | None:
    """Find the next due recovery."""
    record = await connection.fetchrow(QUERIES["find_next_recovery"])
    return None if record is None else DueRecovery(**record)


async def lock_recovery(connection: Connection, recovery: UUID) -> RecoveryState | None:
    """Lock a recovery of a locked endpoint. Return None if it is no longer due."""
    record = await connection.fetchrow(QUERIES["lock_recovery"], recovery)
    return None if record is None else RecoveryState(**record)


async def count_due(connection: Connection, endpoint: UUID, limit: int) -> int:
    """Count the due deliveries of an endpoint, up to a limit."""
    count: int = await connection.fetchval(QUERIES["count_due"], endpoint, limit)
    return count


async def requeue_deliveries(connection: Connection, selection: DeliverySelection) -> list[UUID]:
    """Make failed deliveries of a locked endpoint due now. Return their ids in order."""
    return sorted(record["id"] for record in await Settled(connection).fetch(QUERIES["requeue_deliveries"], *selection))


async def advance_recovery(
    connection: Connection, recovery: UUID, position: UUID | None, count: int, wait: float | None
) -> None:
    """Save how far a recovery is. It continues after `wait` seconds (None: it is done)."""
    await connection.execute(QUERIES["advance_recovery"], recovery, position, count, wait)
