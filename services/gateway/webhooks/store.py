"""Reads and writes subscriptions, their secrets, tests and recoveries."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

from common.postgres import sql
from common.postgres.audit_log import AuditEntry, add_entries
from common.postgres.database import Connection, Database

MAX_RELEASED = 10_000  # deliveries, when a subscription is no longer ordered: they take up to a second

QUERIES = sql.load("services.gateway.webhooks")


class NewWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription to add. `headers` and `secret` are encrypted."""

    id: UUID
    tenant_id: UUID
    url: str
    events: Sequence[str]
    models: Sequence[str] | None
    description: str | None
    headers: bytes | None
    signing: Literal["hmac", "ed25519"]
    secret: bytes
    rate_limit: int | None
    ordered: bool
    format: Literal["charonia", "openai"] = "charonia"


class WebhookRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored subscription. `headers` and `secret` are encrypted."""

    id: UUID
    url: str
    events: list[str]
    models: list[str] | None
    description: str | None
    headers: bytes | None
    signing: Literal["hmac", "ed25519"]
    secret: bytes
    created_at: datetime
    rate_limit: int | None
    ordered: bool
    disabled_at: datetime | None
    disabled_reason: Literal["gone", "failing", "manual"] | None
    format: Literal["charonia", "openai"] = "charonia"


class NewTest(NamedTuple):
    """A test event to add. `body` is the body of the request."""

    event_id: UUID
    body: bytes
    traceparent: str


class RecoveryRow(NamedTuple):
    id: UUID
    webhook_id: UUID
    since: datetime
    until: datetime
    recovered: int
    done: bool
    created_at: datetime


def read_webhook(record: Mapping[str, object]) -> WebhookRow:
    return msgspec.convert(record, WebhookRow, builtin_types=(UUID, datetime, bytes))


class WebhookStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, webhook: NewWebhook, most: int, entry: AuditEntry) -> WebhookRow | None:
        """Add a subscription and its audit entry. Return None if its tenant has `most` already."""
        async with self._database.transaction() as connection:
            await self.lock_tenant_secret(connection, webhook.tenant_id)  # so that concurrent calls count in turn
            if await connection.fetchval(QUERIES["count_webhooks"], webhook.tenant_id) >= most:
                return None
            record = await connection.fetchrow(QUERIES["add_webhook"], *msgspec.structs.astuple(webhook))
            await add_entries(connection, [entry])
        assert record is not None, "an INSERT … RETURNING returns its row"
        return read_webhook(dict(record))

    async def list(self, tenant_id: UUID, after: UUID | None, limit: int) -> Sequence[WebhookRow]:
        found = await self._database.fetch(QUERIES["list_webhooks"], tenant_id, after, limit)
        return [read_webhook(dict(record)) for record in found]

    async def find(self, webhook_id: UUID, tenant_id: UUID) -> WebhookRow | None:
        record = await self._database.fetch_one(QUERIES["find_webhook"], webhook_id, tenant_id)
        return read_webhook(dict(record)) if record else None

    async def lock(self, connection: Connection, webhook_id: UUID, tenant_id: UUID) -> WebhookRow | None:
        """Lock the subscription. Until the transaction ends, nobody else changes it or sends to it."""
        await connection.execute(QUERIES["lock_webhook"], webhook_id, tenant_id)
        record = await connection.fetchrow(QUERIES["find_webhook"], webhook_id, tenant_id)
        return read_webhook(dict(record)) if record else None

    async def update(self, connection: Connection, before: WebhookRow, row: WebhookRow) -> None:
        """Write every field of a locked subscription that may change.

        If it is no longer ordered, make due what waited for its order: MAX_RELEASED deliveries, and the others at
        the time that they have.
        """
        values = (row.id, row.url, row.events, row.models, row.description, row.headers, row.rate_limit, row.ordered)
        await connection.execute(QUERIES["update_webhook"], *values)
        if before.ordered and not row.ordered:
            await connection.execute(QUERIES["release_blocked"], row.id, MAX_RELEASED)

    async def delete(self, connection: Connection, webhook_id: UUID) -> None:
        """Delete a locked subscription. A notifier deletes its deliveries."""
        await connection.execute(QUERIES["release_endpoint"], webhook_id)
        await connection.execute(QUERIES["delete_webhook"], webhook_id)

    async def disable(self, connection: Connection, webhook_id: UUID) -> datetime | None:
        """Disable a locked subscription. Return when, or None if it is disabled already."""
        at: datetime | None = await connection.fetchval(QUERIES["disable_webhook"], webhook_id)
        return at

    async def enable(self, connection: Connection, webhook_id: UUID) -> None:
        await connection.execute(QUERIES["enable_webhook"], webhook_id)

    async def add_test(self, connection: Connection, webhook_id: UUID, tenant_id: UUID, test: NewTest) -> UUID:
        """Return the id of its delivery."""
        values = (webhook_id, test.event_id, tenant_id, test.body, test.traceparent)
        delivery_id: UUID = await connection.fetchval(QUERIES["add_test"], *values)
        return delivery_id

    async def add_recovery(
        self, connection: Connection, recovery_id: UUID, webhook_id: UUID, since: datetime, until: datetime | None
    ) -> RecoveryRow:
        record = await connection.fetchrow(QUERIES["add_recovery"], recovery_id, webhook_id, since, until)
        assert record is not None, "an INSERT … RETURNING returns its row"
        return RecoveryRow(*record.values())

    async def find_recovery(self, recovery_id: UUID, webhook_id: UUID, tenant_id: UUID) -> RecoveryRow | None:
        record = await self._database.fetch_one(QUERIES["find_recovery"], recovery_id, webhook_id, tenant_id)
        return RecoveryRow(*record.values()) if record else None

    async def find_tenant_secret(self, tenant_id: UUID) -> bytes:
        """Return the encrypted secret."""
        record = await self._database.fetch_one(QUERIES["find_tenant_secret"], tenant_id)
        assert record is not None, "an authenticated tenant exists"
        secret: bytes = record["secret"]
        return secret

    async def lock_tenant_secret(self, connection: Connection, tenant_id: UUID) -> bytes:
        """Lock the tenant, and return its encrypted secret."""
        secret: bytes = await connection.fetchval(QUERIES["lock_tenant_secret"], tenant_id)
        return secret

    async def set_secret(self, connection: Connection, tenant_id: UUID, webhook_id: UUID | None, secret: bytes) -> None:
        """Write the encrypted secret of a locked subscription, or of the locked tenant."""
        if webhook_id is None:
            await connection.execute(QUERIES["set_tenant_secret"], tenant_id, secret)
        else:
            await connection.execute(QUERIES["set_webhook_secret"], webhook_id, secret)

    async def count_old_secrets(self, connection: Connection, tenant_id: UUID, webhook_id: UUID | None) -> int:
        """Count the secrets that still sign beside the current one."""
        count: int = await connection.fetchval(QUERIES["count_old_secrets"], tenant_id, webhook_id)
        return count

    async def end_old_secrets(self, connection: Connection, tenant_id: UUID, webhook_id: UUID | None) -> None:
        """Delete the old secrets, so that only the current one signs."""
        await connection.execute(QUERIES["end_old_secrets"], tenant_id, webhook_id)

    async def keep_old_secret(
        self,
        connection: Connection,
        secret_id: UUID,
        tenant_id: UUID,
        webhook_id: UUID | None,
        secret: bytes,
        grace: float,
    ) -> datetime:
        """Let the old secret sign for `grace` more seconds. Return when it stops."""
        until: datetime = await connection.fetchval(
            QUERIES["keep_old_secret"], secret_id, tenant_id, webhook_id, secret, grace
        )
        return until
