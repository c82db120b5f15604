"""The notifier's statements, one function each."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from common import ids, sql
from common.database import STATEMENT_SECONDS, Database, columns

QUERIES = sql.load("services.notifier")


class Claim(msgspec.Struct, frozen=True):
    """A delivery to attempt now; `secret` and `headers` are sealed, `age` is in seconds."""

    id: UUID
    job_id: UUID
    attempt: int
    url: str
    traceparent: str
    headers: bytes | None
    body: bytes
    secret: bytes
    claimed_at: datetime
    age: float
    tries: int


class Record(msgspec.Struct, frozen=True):
    """What an attempt came to; `attempt` is the fence, `delay` (seconds) is for `pending` only."""

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


class Store:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def add_deliveries(self, events: Mapping[UUID, str], delay: float) -> int:
        """Makes the deliveries of events, each given with a traceparent; how many are new or were there already."""
        async with self.database.transaction() as connection:
            found = await connection.fetch(QUERIES["find_receivers"], list(events), timeout=STATEMENT_SECONDS)
            rows = [(ids.new(), *record.values(), events[record["event_id"]]) for record in found]
            rows.sort(key=lambda row: (row[1], str(row[4])))  # in the same order everywhere: no deadlocks
            if rows:
                await connection.execute(QUERIES["add_deliveries"], *columns(rows, 7), delay, timeout=STATEMENT_SECONDS)
            await connection.execute(QUERIES["mark_fanned_out"], list(events), timeout=STATEMENT_SECONDS)
        return len(rows)

    async def find_unheard(self, age: float, limit: int) -> dict[UUID, str]:
        """Events with the traceparents of their jobs."""
        found = await self.database.fetch(QUERIES["find_unheard"], age, limit)
        return {record["id"]: record["traceparent"] for record in found}

    async def claim_deliveries(self, limit: int, lease: float) -> list[Claim]:
        found = await self.database.fetch(QUERIES["claim_deliveries"], limit, lease)
        return [Claim(**record) for record in found]

    async def record_attempts(self, records: Sequence[Record]) -> set[UUID]:
        rows = [msgspec.structs.astuple(record) for record in records]
        found = await self.database.fetch(QUERIES["record_attempts"], *columns(rows, 10))
        return {record["id"] for record in found}
