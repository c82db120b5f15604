"""API keys: bearer tokens, kept as SHA-256 hashes. They are random, so a fast hash without salt is enough."""

import hashlib
import secrets
from http import HTTPStatus
from uuid import UUID

from litestar.connection import ASGIConnection
from litestar.middleware import AbstractAuthenticationMiddleware, AuthenticationResult

from common import ids, signing
from common.batching import Batcher
from common.sealing import Sealer
from services.gateway.errors import Problem
from services.gateway.store import Key, Store


def hash_key(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogateescape")).digest()


def new_key() -> str:
    return f"ch_{secrets.token_urlsafe(32)}"


def refuse(detail: str) -> Problem:
    return Problem(HTTPStatus.UNAUTHORIZED, "unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})


class Keyring:
    """Looks keys up, many in one statement under load. Nothing is cached: a revoked key is refused at once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.lookups: Batcher[bytes, Key | None] = Batcher(self.find)

    async def find(self, hashes: list[bytes]) -> list[Key | None]:
        found = await self.store.find_keys(hashes)
        return [found.get(key_hash) for key_hash in hashes]

    async def authenticate(self, header: str | None) -> Key:
        """The key in an Authorization header; raises Problem (401)."""
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise refuse("send your API key as 'Authorization: Bearer <key>'")
        key = await self.lookups.submit(hash_key(token.strip()))
        if key is None:
            raise refuse("this API key is not known, or it was revoked")
        return key


class Authentication(AbstractAuthenticationMiddleware):
    """Everything under /v1 needs a key; `request.user` is it."""

    async def authenticate_request(self, connection: ASGIConnection) -> AuthenticationResult:  # type: ignore[type-arg]
        keyring: Keyring = connection.app.state.keyring
        key = await keyring.authenticate(connection.headers.get("authorization"))
        return AuthenticationResult(user=key, auth=None)


async def ensure_tenant(store: Store, sealer: Sealer, name: str) -> UUID:
    """The tenant of that name, made with a webhook secret of its own where there is none."""
    await store.add_tenant(ids.new(), name, sealer.seal(signing.new_secret("hmac").encode()))
    tenant = await store.find_tenant(name)
    assert tenant is not None, "it was added, or there before"
    return tenant
