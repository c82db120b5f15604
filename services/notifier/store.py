"""The notifier's statements that deliver, one function each."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from common import ids, sql
from common.database import Connection, Database, columns
from common.errors import Unavailable
from services.notifier.circuits import OPEN_AFTER, OPEN_SECONDS

QUERIES = sql.load("services.notifier")
NEVER = math.inf


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery to attempt now; `secrets` and `headers` are sealed, the newest secret first; `age` (seconds) and
    `tries` are those of its schedule, `event_age` is the time since what it tells of."""

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
    event_age: float


class Claimed(NamedTuple):
    claims: list[Claim]
    wait: float  # seconds until more can be claimed of these endpoints; 0 where it could be now, given room


class Recorded(NamedTuple):
    moved: dict[UUID, str]  # the new status of each delivery whose attempt was written down
    due: bool  # whether a look at their endpoints is worth while now


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt came to; `attempt` is the fence, `delay` (seconds) is for `pending` only; a receiver that is
    `gone` wants no more."""

    id: UUID
    attempt: int
    status: Literal["pending", "succeeded", "exhausted"]
    delay: float | None
    counted: bool
    started_at: datetime
    duration_ms: float
    status_code: int | None
    error: str | None
    response: bytes
    endpoint_id: UUID
    webhook_id: UUID | None
    gone: bool = False


class Receiver(NamedTuple):
    """Who is to be told of an event; without `webhook_id` it is the job's own callback."""

    event_id: UUID
    tenant_id: UUID
    job_id: UUID | None
    webhook_id: UUID | None
    url: str
    event_type: str

    @property
    def endpoint(self) -> UUID | tuple[UUID, str]:
        """The id of its endpoint, or where callbacks have none that is known, the tenant and the origin."""
        return self.webhook_id or (self.tenant_id, origin_of(self.url))


def origin_of(url: str) -> str:
    """Scheme, host and port: all callbacks of a tenant to one of these share their fate."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


class Store:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def add_deliveries(self, events: Mapping[UUID, str], delay: float) -> int:
        """Makes the deliveries of events, each given with a traceparent; how many are new or were there already."""
        async with self.database.transaction() as connection:
            found = await connection.fetch(QUERIES["find_receivers"], list(events))
            receivers = [Receiver(*record.values()) for record in found]
            if receivers:
                endpoints = await self.lock_receivers(connection, receivers)
                rows = [
                    (ids.new(), *each, endpoints[each.endpoint], events[each.event_id])
                    for each in receivers
                    if each.webhook_id is None or each.endpoint in endpoints  # else it was deleted just now
                ]
                rows.sort(key=lambda row: (row[1], str(row[4])))  # in the same order everywhere: no deadlocks
                values = columns(rows, 9)
                await connection.execute(QUERIES["add_deliveries"], *values, delay)
            await connection.execute(QUERIES["mark_fanned_out"], list(events))
        return len(receivers)

    async def lock_receivers(
        self, connection: Connection, receivers: Sequence[Receiver]
    ) -> dict[UUID | tuple[UUID, str], UUID]:
        """The ids of the receivers' endpoints, which nobody else changes until the transaction ends."""
        wanted = {receiver.endpoint for receiver in receivers}
        webhooks = [each for each in wanted if isinstance(each, UUID)]
        callbacks = [each for each in wanted if not isinstance(each, UUID)]
        tenants, origins = columns(callbacks, 2)
        if callbacks:
            new = [ids.new() for _ in callbacks]
            await connection.execute(QUERIES["add_endpoints"], new, tenants, origins)
        found = await connection.fetch(QUERIES["lock_receivers"], webhooks, tenants, origins)
        endpoints = {
            each["id"] if each["origin"] is None else (each["tenant_id"], each["origin"]): each["id"] for each in found
        }
        if not endpoints.keys() >= set(callbacks):
            raise Unavailable("an endpoint was tidied away just now; it is made anew when the event comes again")
        return endpoints

    async def find_unheard(self, age: float, limit: int) -> dict[UUID, str]:
        """Events with the traceparents of their jobs."""
        found = await self.database.fetch(QUERIES["find_unheard"], age, limit)
        return {record["id"]: record["traceparent"] for record in found}

    async def claim_deliveries(self, limit: int, lease: float, concurrency: int) -> Claimed:
        """At most `limit` in all and `concurrency` under way for each endpoint, for a lease in seconds."""
        async with self.database.transaction() as connection:
            locked = await connection.fetch(QUERIES["lock_due_endpoints"], limit)
            if not locked:
                return Claimed([], NEVER)
            endpoints = [record["id"] for record in locked]
            found = await connection.fetch(QUERIES["claim_deliveries"], endpoints, limit, lease, concurrency)
            wait = await self.settle(connection, endpoints, concurrency)
        return Claimed([Claim(**record) for record in found], 0.0 if len(locked) == limit else wait)

    async def lock_endpoints(self, connection: Connection, endpoints: Sequence[UUID]) -> None:
        """Before anything is done to their deliveries."""
        await connection.execute(QUERIES["lock_endpoints"], endpoints)

    async def settle(self, connection: Connection, endpoints: Sequence[UUID], concurrency: int) -> float:
        """After anything was done to their deliveries; in how many seconds something is due, 0 for now."""
        wait: float | None = await connection.fetchval(QUERIES["settle_endpoints"], endpoints, concurrency)
        return NEVER if wait is None else max(wait, 0.0)

    async def record_attempts(self, connection: "Connection | Database", records: Sequence[Record]) -> Recorded:
        """Failures need their endpoints locked before, and settled after."""
        rows = [msgspec.structs.astuple(record)[:10] for record in records]
        endpoints = list({record.endpoint_id for record in records})
        values = (*columns(rows, 10), OPEN_AFTER, OPEN_SECONDS, endpoints)
        found = await connection.fetch(QUERIES["record_attempts"], *values)
        return Recorded({each["id"]: each["status"] for each in found if each["id"] is not None}, found[0]["due"])
