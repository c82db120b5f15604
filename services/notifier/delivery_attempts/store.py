"""Records the results of attempts, and disables failing subscriptions."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

from common.postgres import sql
from common.postgres.database import Connection, Database, Settled, to_columns
from common.postgres.statements import Executor
from services.notifier.operational_events.store import DisabledWebhook

QUERIES = sql.load("services.notifier.delivery_attempts")

# Failures in a row open the circuit of an endpoint, and any success closes it. An open circuit allows no attempt.
# After its time is up it allows one attempt at a time until one succeeds.
OPEN_AFTER = 20  # failures in a row: more than one delivery has attempts, so a single rejected one opens no circuit
OPEN_SECONDS = (10.0, 20.0, 40.0, 80.0, 160.0, 300.0)  # for the failure that opens it, and for each further one


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
    url: str
    endpoint_id: UUID
    webhook_id: UUID | None
    disables_webhook: bool = False


class RecordedSuccess(NamedTuple):
    id: UUID
    has_waiting: bool  # whether other deliveries may have waited for it


class RecordedAttempt(NamedTuple):
    """`has_former_url`: its subscription has another URL now, so it says nothing of the subscription."""

    id: UUID
    status: str
    has_former_url: bool


class Health(NamedTuple):
    """What attempts say of an endpoint: whether one succeeded, and how many counted."""

    endpoint_id: UUID
    succeeded: bool
    attempts: int


class AttemptStore:
    def __init__(self, database: Database, relaxed: Executor) -> None:
        """If a crash loses a commit to `relaxed`, the delivery is sent again under the same id."""
        self._database = database
        self._relaxed = relaxed

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        """A transaction that may write endpoints and events: its commit survives a crash."""
        return self._database.transaction()

    async def record_successes(
        self, records: Sequence[AttemptRecord], endpoint_concurrency: int
    ) -> list[RecordedSuccess]:
        """Record successes. Return those that were recorded: no others than to healthy, unordered endpoints."""
        rows = [
            (each.id, each.attempt, each.started_at, each.duration_ms, each.status_code, each.response)
            for each in records
        ]
        rows.sort()  # concurrent statements lock deliveries in one order
        found = await self._relaxed.fetch(QUERIES["record_successes"], *to_columns(rows, 6), endpoint_concurrency)
        return [RecordedSuccess(**record) for record in found]


async def record_attempts(connection: Connection, records: Sequence[AttemptRecord]) -> list[RecordedAttempt]:
    """Record any results, with their endpoints locked. Return those that changed their delivery."""
    rows = [msgspec.structs.astuple(record)[:11] for record in records]
    return [
        RecordedAttempt(*row)
        for row in await Settled(connection).fetch(QUERIES["record_attempts"], *to_columns(rows, 11))
    ]


async def release_blocked(connection: Connection, ended: Sequence[UUID]) -> None:
    """Make due what waited for the end of these deliveries, where a subscription is ordered."""
    await connection.execute(QUERIES["release_blocked"], ended)


async def update_health(connection: Connection, health: Sequence[Health]) -> None:
    """Update the failure counts and circuits of locked endpoints."""
    await connection.execute(QUERIES["update_health"], *to_columns(health, 3), OPEN_AFTER, OPEN_SECONDS)


async def disable_webhooks(
    connection: Connection, webhooks: Sequence[UUID], endpoints: Sequence[UUID], disable_after: float
) -> list[DisabledWebhook]:
    """Disable `webhooks`, and those of `endpoints` that have failed for `disable_after` seconds."""
    found = await connection.fetch(QUERIES["disable_webhooks"], webhooks, endpoints, disable_after)
    return [DisabledWebhook(**record) for record in found]


async def begin_canceling(connection: Connection, webhooks: Sequence[UUID]) -> None:
    """Let a notifier cancel the waiting deliveries of disabled subscriptions, whose endpoints are locked."""
    await connection.execute(QUERIES["begin_canceling"], webhooks)
