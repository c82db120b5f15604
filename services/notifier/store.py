"""The notifier's statements that deliver, one function each."""

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from common import ids, sql
from common.database import Connection, Database, columns
from common.errors import Unavailable
from services.notifier.circuits import OPEN_AFTER, OPEN_SECONDS
from services.notifier.lane import Lane

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
    """Of an event that was not fanned out: a subscription, or a callback to a tenant's origin."""

    tenant_id: UUID
    endpoint_id: UUID | None
    origin: str | None


class FannedOut(NamedTuple):
    made: int  # deliveries
    due: bool  # whether a look for those that were not claimed is worth while now
    claims: list[Claim]
    left: list[Receiver]  # of the events that take another try, under locks


def read_claim(record: "asyncpg.Record") -> Claim:
    return Claim(**{name: record[name] for name in Claim.__struct_fields__})


def read_fanned(found: Sequence["asyncpg.Record"]) -> FannedOut:
    claims = [read_claim(each) for each in found if each["is_left"] is False]
    left = [Receiver(each["tenant_id"], each["endpoint_id"], each["origin"]) for each in found if each["is_left"]]
    return FannedOut(found[0]["made"], found[0]["due"], claims, left)


class Store:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.lane = Lane()

    @asynccontextmanager
    async def write_endpoints(self) -> AsyncIterator[Connection]:
        """A transaction in which endpoints' rows are written, as a rule after those of this process before it."""
        async with self.lane.enter(), self.database.transaction() as connection:
            yield connection

    async def fan_out(
        self, events: Mapping[UUID, str], delay: float, lease: float, concurrency: int, room: int
    ) -> FannedOut:
        """Makes the deliveries of events, each given with a traceparent, due after a delay in seconds. Claims up to
        `room` of those that may be sent at once, for a lease in seconds, with at most `concurrency` under way for each
        endpoint."""
        values = (list(events), list(events.values()), delay, lease, concurrency, room)
        async with self.lane.enter():
            return read_fanned(await self.database.fetch(QUERIES["fan_out"], *values))

    async def fan_out_left(
        self,
        left: Sequence[Receiver],
        events: Mapping[UUID, str],
        delay: float,
        lease: float,
        concurrency: int,
        room: int,
    ) -> FannedOut:
        """As `fan_out`, of events that it left for these. Raises Unavailable where it leaves some again."""
        values = (list(events), list(events.values()), delay, lease, concurrency, room)
        async with self.write_endpoints() as connection:
            await connection.execute(QUERIES["lock_events"], list(events))
            callbacks = {(each.tenant_id, each.origin) for each in left if each.origin is not None}
            tenants, origins = columns(list(callbacks), 2)
            await connection.execute(QUERIES["add_endpoints"], [ids.new() for _ in callbacks], tenants, origins)
            webhooks = [each.endpoint_id for each in left if each.origin is None]
            await connection.execute(QUERIES["lock_receivers"], webhooks, tenants, origins)
            fanned = read_fanned(await connection.fetch(QUERIES["fan_out"], *values))
            if fanned.left:
                raise Unavailable("an endpoint came or went once more just now; the event comes again")
        return fanned

    async def find_unheard(self, age: float, limit: int) -> dict[UUID, str]:
        """Events with the traceparents of their jobs."""
        found = await self.database.fetch(QUERIES["find_unheard"], age, limit)
        return {record["id"]: record["traceparent"] for record in found}

    async def claim_deliveries(self, limit: int, lease: float, concurrency: int) -> Claimed:
        """At most `limit` in all and `concurrency` under way for each endpoint, for a lease in seconds."""
        async with self.write_endpoints() as connection:
            locked = await connection.fetch(QUERIES["lock_due_endpoints"], limit)
            if not locked:
                return Claimed([], NEVER)
            endpoints = [record["id"] for record in locked]
            found = await connection.fetch(QUERIES["claim_deliveries"], endpoints, limit, lease, concurrency)
            wait = await self.settle(connection, endpoints, concurrency)
        return Claimed([read_claim(each) for each in found], 0.0 if len(locked) == limit else wait)

    async def lock_endpoints(self, connection: Connection, endpoints: Sequence[UUID]) -> None:
        """Before anything is done to their deliveries."""
        await connection.execute(QUERIES["lock_endpoints"], endpoints)

    async def settle(self, connection: Connection, endpoints: Sequence[UUID], concurrency: int) -> float:
        """After anything was done to their deliveries; in how many seconds something is due, 0 for now."""
        wait: float | None = await connection.fetchval(QUERIES["settle_endpoints"], endpoints, concurrency)
        return NEVER if wait is None else max(wait, 0.0)

    async def record_successes(self, records: Sequence[Record]) -> Recorded:
        async with self.lane.enter():
            return await self.record_attempts(self.database, records)

    async def record_attempts(self, connection: "Connection | Database", records: Sequence[Record]) -> Recorded:
        """Failures need their endpoints locked before, and settled after."""
        rows = [msgspec.structs.astuple(record)[:10] for record in records]
        endpoints = list({record.endpoint_id for record in records})
        values = (*columns(rows, 10), OPEN_AFTER, OPEN_SECONDS, endpoints)
        found = await connection.fetch(QUERIES["record_attempts"], *values)
        return Recorded({each["id"]: each["status"] for each in found if each["id"] is not None}, found[0]["due"])
