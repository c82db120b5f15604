"""API keys: bearer tokens, kept as SHA-256 hashes. They are random, so a fast hash without salt is enough."""

import contextlib
import hashlib
import secrets
from http import HTTPStatus
from typing import Any, TypeAlias
from uuid import UUID

from litestar.connection import ASGIConnection
from litestar.middleware import AbstractAuthenticationMiddleware, AuthenticationResult

from common import ids, signing
from common.batching import Batcher
from common.errors import Unavailable
from common.sealing import Sealer
from services.gateway.errors import Problem
from services.gateway.rates import Rates
from services.gateway.scopes import check_scope
from services.gateway.store import Key, Store

Connection: TypeAlias = ASGIConnection[Any, Any, Any, Any]


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
        self.lookups: Batcher[bytes, Key | None] = Batcher(self.find, name="keys")

    async def find(self, hashes: list[bytes]) -> list[Key | None]:
        found = await self.store.find_keys(hashes)
        if stale := [key.id for key in found.values() if key.stale]:
            with contextlib.suppress(Unavailable):  # a note of their use is not worth a request
                await self.store.note_uses(stale)
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
    """Everything under /v1 needs a key with the scope of its route; `request.user` is the key."""

    async def authenticate_request(self, connection: Connection) -> AuthenticationResult:
        return AuthenticationResult(user=await let_in(connection), auth=None)


async def let_in(connection: Connection) -> Key:
    """The caller's key, which may make this call now; raises Problem (401, 403, 429)."""
    keyring: Keyring = connection.app.state.keyring
    key = await keyring.authenticate(connection.headers.get("authorization"))
    rates: Rates = connection.app.state.rates
    await rates.admit(key, connection.scope)
    check_scope(connection.route_handler, key.scopes)
    return key


async def check_again(connection: Connection) -> None:
    """For a caller who was let in a while ago; raises Problem (401) where the key was revoked meanwhile."""
    keyring: Keyring = connection.app.state.keyring
    await keyring.authenticate(connection.headers.get("authorization"))


async def ensure_tenant(store: Store, sealer: Sealer, name: str) -> UUID:
    """The tenant of that name, made with a webhook secret of its own where there is none."""
    await store.add_tenant(ids.new(), name, sealer.seal(signing.new_secret("hmac").encode()))
    tenant = await store.find_tenant(name)
    assert tenant is not None, "it was added, or there before"
    return tenant
