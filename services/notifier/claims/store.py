"""Claims on due deliveries."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from common.postgres import sql
from common.postgres.batcher import MAX_BATCH_BYTES
from common.postgres.database import Connection, Database, Settled
from services.notifier.claims.tenant_slots import UNLIMITED, TenantRooms
from services.notifier.endpoints.store import NEVER, reschedule_endpoints

MAX_LOOKED_AT = 100  # due deliveries of an ordered endpoint, by one claim

QUERIES = sql.load("services.notifier.claims")


class ClaimedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery to attempt now.

    `secrets` (newest first) and `headers` are encrypted. `age` (seconds) and `tries` belong to its
    schedule.
    """

    id: UUID
    tenant_id: UUID
    job_id: UUID | None
    webhook_id: UUID | None
    endpoint_id: UUID
    event_type: str
    attempt: int
    url: str
    traceparent: str
    headers: bytes | None
    body: bytes
    secrets: list[bytes]
    claimed_at: datetime
    age: float
    tries: int
    event_age: float  # seconds


class ClaimBatch(NamedTuple):
    claims: list[ClaimedDelivery]
    wait: float  # seconds until more deliveries are due; 0 if some are due now
    held: list[UUID]  # the given endpoints that another transaction has locked
    has_more: bool = False  # whether more endpoints may be due


class LockedEndpoint(NamedTuple):
    id: UUID
    ordered: bool  # a later event of a job waits for the earlier one


class ClaimStore:
    def __init__(self, relaxed: Database) -> None:
        """If a crash loses a commit to `relaxed`, the delivery is claimed again under the same id."""
        self._relaxed = relaxed

    async def has_due(self) -> bool:
        """Return whether any endpoint may be due. Costs one statement; a claim costs three or more."""
        found = await self._relaxed.fetch_one(QUERIES["has_due_endpoints"])
        return found is not None and bool(found["found"])

    async def claim_due(
        self,
        limit: int,
        lease: float,
        endpoint_concurrency: int,
        endpoints: Sequence[UUID] = (),
        rooms: TenantRooms = UNLIMITED,
    ) -> ClaimBatch:
        """Claim up to `limit` due deliveries for a lease in seconds: of due endpoints, and of these."""
        async with self._relaxed.transaction() as connection:
            free, held = await lock_endpoints_if_free(connection, endpoints) if endpoints else ([], [])
            due = await lock_due_endpoints(connection, limit, rooms)
            if not (free or due):
                return ClaimBatch([], NEVER, held)
            locked = list({each.id for each in (*free, *due)})
            if ordered := [each.id for each in (*free, *due) if each.ordered]:
                await connection.execute(QUERIES["postpone_blocked"], ordered, lease, MAX_LOOKED_AT)
            claims = await claim_deliveries(connection, locked, limit, lease, endpoint_concurrency, rooms)
            wait = await reschedule_endpoints(connection, locked, endpoint_concurrency)
        has_more = len(due) == limit
        return ClaimBatch(claims, 0.0 if has_more else wait, held, has_more)


async def lock_due_endpoints(connection: Connection, limit: int, rooms: TenantRooms) -> list[LockedEndpoint]:
    """Lock endpoints with due deliveries of tenants that have room, the longest waiting first."""
    found = await connection.fetch(QUERIES["lock_due_endpoints"], limit, rooms.list_full())
    return [LockedEndpoint(each["id"], each["ordered"]) for each in found]


async def lock_endpoints_if_free(
    connection: Connection, endpoints: Sequence[UUID]
) -> tuple[list[LockedEndpoint], list[UUID]]:
    """Lock endpoints without waiting. Return those that were locked, and those that another transaction holds."""
    found = await connection.fetch(QUERIES["lock_endpoints_if_free"], endpoints)
    locked = [LockedEndpoint(each["id"], each["ordered"]) for each in found if each["locked"]]
    return locked, [each["id"] for each in found if not each["locked"]]


async def claim_deliveries(
    connection: Connection,
    endpoints: Sequence[UUID],
    limit: int,
    lease: float,
    endpoint_concurrency: int,
    rooms: TenantRooms,
) -> list[ClaimedDelivery]:
    """Claim due deliveries of locked endpoints, in turns. Their bodies have MAX_BATCH_BYTES and one body more."""
    values = (endpoints, limit, lease, endpoint_concurrency, *rooms.to_values(), MAX_BATCH_BYTES)
    found = await Settled(connection).fetch(QUERIES["claim_deliveries"], *values)
    return [read_claim(record) for record in found]


def read_claim(record: "asyncpg.Record") -> ClaimedDelivery:
    return ClaimedDelivery(**{name: record[name] for name in ClaimedDelivery.__struct_fields__})
