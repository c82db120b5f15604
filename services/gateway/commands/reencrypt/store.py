"""The SQL statements that re-encrypt secrets, one function each."""

from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.gateway.commands.reencrypt")

SecretKind: TypeAlias = Literal["tenant_secrets", "webhook_secrets", "webhook_headers", "old_secrets"]


class EncryptedSecret(NamedTuple):
    id: UUID  # of its row
    ciphertext: bytes


class SecretStore:
    """All encrypted secrets, by kind."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_secrets(self, kind: SecretKind, after: UUID, limit: int) -> list[EncryptedSecret]:
        """Return the secrets after an id, in order of id."""
        found = await self._database.fetch(QUERIES[f"list_{kind}"], after, limit)
        return [EncryptedSecret(record["id"], record["ciphertext"]) for record in found]

    async def replace(self, kind: SecretKind, secret: EncryptedSecret, ciphertext: bytes) -> None:
        """Replace a secret's ciphertext, unless the secret has changed since it was read."""
        await self._database.fetch(QUERIES[f"set_{kind}"], secret.id, secret.ciphertext, ciphertext)
