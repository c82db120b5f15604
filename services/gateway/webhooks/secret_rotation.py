"""Replaces signing secrets. During the grace period the old and the new secret both sign."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common import ids
from common.postgres.audit_log import AuditEntry, add_entries
from common.postgres.database import Connection, Database
from common.security import webhook_signatures
from common.security.encryption import Encryptor
from services.gateway.auth.store import Key
from services.gateway.http.problems import limit_reached, not_found
from services.gateway.webhooks.audit_entries import make_entry
from services.gateway.webhooks.store import WebhookRow, WebhookStore

MAX_OLD_SECRETS = 4  # in their grace period: each adds a signature to every delivery


class RotatedSecret(NamedTuple):
    secret: str
    old_until: datetime | None  # when the old secret stops signing; None if it stopped at once


class SecretRotation:
    """Rotates the secret of a subscription, or of a tenant."""

    def __init__(self, database: Database, encryptor: Encryptor) -> None:
        self._database = database
        self._store = WebhookStore(database)
        self._encryptor = encryptor

    async def rotate_webhook(self, key: Key, webhook_id: UUID, grace: float) -> tuple[WebhookRow, RotatedSecret]:
        """Replace a subscription's secret. The old one signs for `grace` more seconds.

        Raises Problem: 404, or 409 while too many old secrets still sign.
        """
        async with self._database.transaction() as connection:
            row = await self._store.lock(connection, webhook_id, key.tenant_id)
            if row is None:
                raise not_found("webhook")
            secret = webhook_signatures.new_secret(row.signing)
            until = await self._replace(connection, key.tenant_id, webhook_id, row.secret, secret, grace)
            entry = make_entry(key, "webhook.rotated", webhook_id, {"grace_period": grace})
            await add_entries(connection, [entry])
        return row, RotatedSecret(secret, until)

    async def rotate_tenant(self, key: Key, grace: float) -> RotatedSecret:
        """Replace the secret that signs callbacks of single jobs. Raises Problem (409)."""
        async with self._database.transaction() as connection:
            old = await self._store.lock_tenant_secret(connection, key.tenant_id)
            secret = webhook_signatures.new_secret("hmac")
            until = await self._replace(connection, key.tenant_id, None, old, secret, grace)
            target = ids.encode(ids.Kind.TENANT, key.tenant_id)
            entry = AuditEntry(key.tenant_id, key.actor, "secret.rotated", target, {"grace_period": grace})
            await add_entries(connection, [entry])
        return RotatedSecret(secret, until)

    async def _replace(
        self, connection: Connection, tenant_id: UUID, webhook_id: UUID | None, old: bytes, secret: str, grace: float
    ) -> datetime | None:
        await self._store.set_secret(connection, tenant_id, webhook_id, self._encryptor.encrypt(secret.encode()))
        if grace == 0:
            await self._store.end_old_secrets(connection, tenant_id, webhook_id)
            return None
        if await self._store.count_old_secrets(connection, tenant_id, webhook_id) >= MAX_OLD_SECRETS:
            raise limit_reached(
                f"{MAX_OLD_SECRETS} old secrets are still in their grace period; "
                "wait until one ends, or rotate with grace_period 0"
            )
        return await self._store.keep_old_secret(connection, ids.new(), tenant_id, webhook_id, old, grace)
