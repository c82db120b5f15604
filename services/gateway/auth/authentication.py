"""API keys: bearer tokens, stored as SHA-256 hashes. They are random, so a fast hash without salt is enough."""

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
from litestar.types import ASGIApp

from common import ids
from common.errors import Unavailable
from common.postgres.batcher import Batcher
from common.security import webhook_signatures
from common.security.encryption import Encryptor
from services.gateway.auth.rate_limits import RateLimiter
from services.gateway.auth.scopes import check_scope
from services.gateway.auth.store import Key, KeyStore
from services.gateway.http.problems import Problem

Connection: TypeAlias = ASGIConnection[Any, Any, Any, Any]
CACHED_KEY = "cached_key"  # the option of a route whose own statement checks that a cached key is still valid
CACHED_SECONDS = 10.0
MAX_CACHED = 10_000  # keys; beyond it the cache starts again


def hash_key(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogateescape")).digest()


def new_key() -> str:
    return f"ch_{secrets.token_urlsafe(32)}"


def unauthorized(detail: str) -> Problem:
    return Problem(HTTPStatus.UNAUTHORIZED, "unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})


def revoked() -> Problem:
    return unauthorized("this API key is unknown or was revoked")


class KeyCache:
    """Looks up keys, many in one statement under load, and caches them for routes that check them again."""

    def __init__(self, store: KeyStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lookups: Batcher[bytes, Key | None] = Batcher(self.find_keys, name="keys")
        self._cached: dict[bytes, tuple[Key, float]] = {}  # with the time until which they are good

    def __len__(self) -> int:
        return len(self._cached)

    async def find(self, header: str | None) -> Key:
        """Return the key in an Authorization header; raises Problem (401)."""
        key = await self._lookups.submit(hash_key(read_token(header)))
        if key is None:
            raise revoked()
        return key

    def find_cached(self, header: str | None) -> Key | None:
        """Return the key in an Authorization header if it was looked up lately; it may have been revoked since.

        Raises Problem (401).
        """
        key, until = self._cached.get(hash_key(read_token(header)), (None, 0.0))
        return key if self._clock() < until else None

    async def find_keys(self, hashes: list[bytes]) -> list[Key | None]:
        """Look up many keys at once, and note their use."""
        found = await self._store.find_keys(hashes)
        if stale := [key.id for key in found.values() if key.stale]:
            with contextlib.suppress(Unavailable):  # not worth failing a request
                await self._store.note_uses(stale)
        self._cache(hashes, found)
        return [found.get(key_hash) for key_hash in hashes]

    def _cache(self, hashes: list[bytes], found: dict[bytes, Key]) -> None:
        if len(self._cached) + len(found) > MAX_CACHED:
            self._cached.clear()
        for key_hash in hashes:
            self._cached.pop(key_hash, None)
        until = self._clock() + CACHED_SECONDS
        self._cached.update((key_hash, (key._replace(cached=True), until)) for key_hash, key in found.items())


def read_token(header: str | None) -> str:
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise unauthorized("the API key is missing; send it as 'Authorization: Bearer <key>'")
    return token.strip()


class Authenticator:
    """Decides whether a caller may make a call."""

    def __init__(self, keys: KeyCache, limits: RateLimiter) -> None:
        self._keys = keys
        self._limits = limits

    async def authenticate(self, connection: Connection, check: Callable[[Connection], None] | None = None) -> Key:
        """Return the caller's key if it may make this call now.

        Raises Problem: 401, 403 or 429, and what `check` raises.
        """
        header = connection.headers.get("authorization")
        key = self._keys.find_cached(header) if connection.route_handler.opt.get(CACHED_KEY) else None
        if key is None:
            key = await self._keys.find(header)
        try:
            await self._limits.admit(key, connection.scope)
            check_scope(connection.route_handler, key.scopes)
            if check is not None:
                check(connection)
        except Problem:
            await self.recheck_cached(connection, key)
            raise
        return key

    async def recheck(self, connection: Connection) -> None:
        """Raise Problem (401) if the caller's key was revoked since it was authenticated."""
        await self._keys.find(connection.headers.get("authorization"))

    async def recheck_cached(self, connection: Connection, key: Key) -> None:
        """Recheck a key that came from the cache; needed before any answer but the route's own."""
        if key.cached:
            await self.recheck(connection)


class AuthenticationMiddleware(AbstractAuthenticationMiddleware):
    """Authenticates each request; `request.user` is the key."""

    def __init__(
        self, app: ASGIApp, authenticator: Authenticator, check: Callable[[Connection], None] | None = None
    ) -> None:
        """`check` may raise Problem for an authenticated request."""
        super().__init__(app)
        self._authenticator = authenticator
        self._check = check

    async def authenticate_request(self, connection: Connection) -> AuthenticationResult:
        return AuthenticationResult(user=await self._authenticator.authenticate(connection, self._check), auth=None)


async def ensure_tenant(store: KeyStore, encryptor: Encryptor, name: str) -> UUID:
    """Return the tenant with this name; a new one gets a webhook secret of its own."""
    await store.add_tenant(ids.new(), name, encryptor.encrypt(webhook_signatures.new_secret("hmac").encode()))
    tenant = await store.find_tenant(name)
    assert tenant is not None, "it was added just now, or existed before"
    return tenant
