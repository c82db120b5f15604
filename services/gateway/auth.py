"""API keys: bearer tokens, kept as SHA-256 hashes. They are random, so a fast hash without salt is enough."""

import contextlib
import hashlib
import secrets
import time
from collections.abc import Callable
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
RECALLS = "recalls_key"  # the option of a route that checks a remembered key with the statement that does its work
REMEMBERED_SECONDS = 10.0
MOST_REMEMBERED = 10_000  # keys; with more, all are looked up anew


def hash_key(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogateescape")).digest()


def new_key() -> str:
    return f"ch_{secrets.token_urlsafe(32)}"


def refuse(detail: str) -> Problem:
    return Problem(HTTPStatus.UNAUTHORIZED, "unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})


def revoked() -> Problem:
    return refuse("this API key is not known, or it was revoked")


class Keyring:
    """Looks keys up, many in one statement under load, and remembers them for those who check them once more."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self.store = store
        self.clock = clock
        self.lookups: Batcher[bytes, Key | None] = Batcher(self.find, name="keys")
        self.remembered: dict[bytes, tuple[Key, float]] = {}

    async def find(self, hashes: list[bytes]) -> list[Key | None]:
        found = await self.store.find_keys(hashes)
        if stale := [key.id for key in found.values() if key.stale]:
            with contextlib.suppress(Unavailable):  # a note of their use is not worth a request
                await self.store.note_uses(stale)
        self.remember(hashes, found)
        return [found.get(key_hash) for key_hash in hashes]

    def remember(self, hashes: list[bytes], found: dict[bytes, Key]) -> None:
        if len(self.remembered) + len(found) > MOST_REMEMBERED:
            self.remembered.clear()
        for key_hash in hashes:
            self.remembered.pop(key_hash, None)
        until = self.clock() + REMEMBERED_SECONDS
        self.remembered.update((key_hash, (key._replace(recalled=True), until)) for key_hash, key in found.items())

    def recall(self, header: str | None) -> Key | None:
        """The key in an Authorization header, where it was looked up lately; it may have been revoked since.

        Raises Problem (401).
        """
        key, until = self.remembered.get(hash_key(read_token(header)), (None, 0.0))
        return key if self.clock() < until else None

    async def authenticate(self, header: str | None) -> Key:
        """The key in an Authorization header; raises Problem (401)."""
        key = await self.lookups.submit(hash_key(read_token(header)))
        if key is None:
            raise revoked()
        return key


def read_token(header: str | None) -> str:
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise refuse("send your API key as 'Authorization: Bearer <key>'")
    return token.strip()


class Authentication(AbstractAuthenticationMiddleware):
    """Everything under /v1 needs a key with the scope of its route; `request.user` is the key."""

    async def authenticate_request(self, connection: Connection) -> AuthenticationResult:
        return AuthenticationResult(user=await let_in(connection, self.check), auth=None)

    def check(self, connection: Connection) -> None:
        """Of a caller who was let in; raises Problem."""


async def let_in(connection: Connection, check: Callable[[Connection], None] | None = None) -> Key:
    """The caller's key, which may make this call now; raises Problem (401, 403, 429, and what `check` raises)."""
    keyring: Keyring = connection.app.state.keyring
    header = connection.headers.get("authorization")
    key = keyring.recall(header) if connection.route_handler.opt.get(RECALLS) else None
    if key is None:
        key = await keyring.authenticate(header)
    rates: Rates = connection.app.state.rates
    try:
        await rates.admit(key, connection.scope)
        check_scope(connection.route_handler, key.scopes)
        if check is not None:
            check(connection)
    except Problem:
        await check_recalled(connection, key)
        raise
    return key


async def check_recalled(connection: Connection, key: Key) -> None:
    """Before anything else is answered to a caller whose key was only remembered; raises Problem (401) if revoked."""
    if key.recalled:
        await check_again(connection)


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
