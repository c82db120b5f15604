"""Records the results of attempts, and disables failing subscriptions."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

from common.postgres import sql
from common.postgres.database import Connection, Database, to_columns
from services.notifier.circuit_breaker import OPEN_AFTER, OPEN_SECONDS
from services.notifier.endpoint_mutex import EndpointMutex

QUERIES = sql.load("services.notifier.store", "attempts.sql")


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is saved of an attempt.

    `attempt` is the fence. `delay` (seconds) is set for `pending` only.
    """

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
    disables_webhook: bool = False


class RecordedAttempts(NamedTuple):
    statuses: dict[UUID, str]  # the new status of each delivery whose attempt was recorded
    due: bool  # whether one of their endpoints is due now


class DisabledWebhook(NamedTuple):
    id: UUID
    tenant_id: UUID
    url: str
    description: str | None
    disabled_at: datetime
    disabled_reason: str


class AttemptStore:
    def __init__(self, database: Database, mutex: EndpointMutex) -> None:
        self._database = database
        self._mutex = mutex

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A transaction that may write endpoints."""
        async with self._mutex.hold(), self._database.transaction() as connection:
            yield connection

    async def record_successes(self, records: Sequence[AttemptRecord]) -> RecordedAttempts:
        async with self._mutex.hold():
            return await record_attempts(self._database, records)


async def record_attempts(connection: "Connection | Database", records: Sequence[AttemptRecord]) -> RecordedAttempts:
    """Record results. For failures, lock the endpoints before and reschedule them after."""
    rows = [msgspec.structs.astuple(record)[:10] for record in records]
    endpoints = list({record.endpoint_id for record in records})
    values = (*to_columns(rows, 10), OPEN_AFTER, OPEN_SECONDS, endpoints)
    found = await connection.fetch(QUERIES["record_attempts"], *values)
    statuses = {each["id"]: each["status"] for each in found if each["id"] is not None}
    return RecordedAttempts(statuses, found[0]["due"])


async def disable_webhooks(
    connection: Connection, webhooks: Sequence[UUID], endpoints: Sequence[UUID], disable_after: float
) -> list[DisabledWebhook]:
    """Disable `webhooks`, and those of `endpoints` that have failed for `disable_after` seconds."""
    found = await connection.fetch(QUERIES["disable_webhooks"], webhooks, endpoints, disable_after)
    return [DisabledWebhook(**record) for record in found]


async def cancel_pending(connection: Connection, webhooks: Sequence[UUID]) -> None:
    """Cancel the waiting deliveries of disabled subscriptions."""
    await connection.execute(QUERIES["cancel_pending"], webhooks)
