"""New secrets for old: while receivers change over, both sign."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common import ids, signing
from common.database import Connection, Database
from common.sealing import Sealer
from services.gateway.errors import conflict, not_found
from services.gateway.webhook_store import WebhookRow, WebhookStore

MAX_OLD = 4  # secrets that sign beside the newest: each is a signature in every delivery's header


class Rotated(NamedTuple):
    secret: str
    old_until: datetime | None  # None where the old one ceased at once


class SecretRotation:
    def __init__(self, database: Database, sealer: Sealer) -> None:
        self.database = database
        self.store = WebhookStore(database)
        self.sealer = sealer

    async def rotate_webhook(self, tenant_id: UUID, webhook_id: UUID, grace: float) -> tuple[WebhookRow, Rotated]:
        """The old secret signs for `grace` seconds more; with 0 only the new one does.

        Raises Problem: 404, or 409 after many within their grace.
        """
        async with self.database.transaction() as connection:
            row = await self.store.lock(connection, webhook_id, tenant_id)
            if row is None:
                raise not_found("webhook")
            secret = signing.new_secret(row.signing)
            until = await self.replace(connection, tenant_id, webhook_id, row.secret, secret, grace)
        return row, Rotated(secret, until)

    async def rotate_tenant(self, tenant_id: UUID, grace: float) -> Rotated:
        """The same for the secret that signs callbacks given per job."""
        async with self.database.transaction() as connection:
            old = await self.store.lock_tenant_secret(connection, tenant_id)
            secret = signing.new_secret("hmac")
            return Rotated(secret, await self.replace(connection, tenant_id, None, old, secret, grace))

    async def replace(
        self, connection: Connection, tenant_id: UUID, webhook_id: UUID | None, old: bytes, secret: str, grace: float
    ) -> datetime | None:
        await self.store.set_secret(connection, tenant_id, webhook_id, self.sealer.seal(secret.encode()))
        if grace == 0:
            await self.store.end_old_secrets(connection, tenant_id, webhook_id)
            return None
        if await self.store.count_old_secrets(connection, tenant_id, webhook_id) >= MAX_OLD:
            raise conflict(f"{MAX_OLD} older secrets are still within their grace period")
        return await self.store.keep_old_secret(connection, ids.new(), tenant_id, webhook_id, old, grace)
