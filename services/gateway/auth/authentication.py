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
from common.settings import EXAMPLE_KEYS
from services.gateway.auth.development_hosts import is_safe_host
from services.gateway.auth.rate_limits import RateLimiter
from services.gateway.auth.scopes import check_scope
from services.gateway.auth.store import Key, KeyStore
from services.gateway.http.limits.body_limits import find_lease
from services.gateway.http.problems import Problem

Connection: TypeAlias = ASGIConnection[Any, Any, Any, Any]
CACHED_SECONDS = 5.0  # how long a revoked key may work if the message that clears the cache is lost
HOW = "send it as 'Authorization: Bearer <key>'"
WRAPPERS = "\"'<[{$"  # of a key that was copied from a page, or of a variable that no shell replaced
WRONG_HOST = (
    "the development key is not accepted under this Host, so that no page in a browser can use it; "
    "call the gateway by an IP address, by localhost, or by the host of CHARONIA_PUBLIC_URL, or use a key of your own"
)
MAX_CACHED = 10_000  # keys; beyond it the cache starts again


def hash_key(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogateescape")).digest()


EXAMPLE_HASHES = frozenset(map(hash_key, EXAMPLE_KEYS))


def new_key() -> str:
    return f"ch_{secrets.token_urlsafe(32)}"


def unauthorized(detail: str) -> Problem:
    return Problem(HTTPStatus.UNAUTHORIZED, "unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})


class KeyCache:
    """Looks up keys, many in one statement under load, and caches them for a few seconds."""

    def __init__(
        self,
        store: KeyStore,
        clock: Callable[[], float] = time.monotonic,
        *,
        development: bool = False,
        public_url: str = "",
    ) -> None:
        """In `development` the key that everybody knows is valid, for requests to local names or the public URL."""
        self._store = store
        self._clock = clock
        self._development = development
        self._public_url = public_url
        self._lookups: Batcher[bytes, Key | None] = Batcher(self.find_keys, name="keys")
        self._cached: dict[bytes, tuple[Key, float]] = {}  # with the time until which they are good

    def __len__(self) -> int:
        return len(self._cached)

    async def find(self, header: str | None, host: str | None = None) -> Key:
        """Return the key in the header Authorization. `host` is the header Host. Raises Problem (401, 403)."""
        key_hash = hash_key(read_token(header))
        if key_hash in EXAMPLE_HASHES:
            self._check_example(host)
        cached, until = self._cached.get(key_hash, (None, 0.0))
        key = cached if self._clock() < until else await self._lookups.submit(key_hash)
        if key is None:
            raise unauthorized("this API key is unknown or was revoked; check it, or ask your operator for another one")
        if key.has_expired:
            raise unauthorized("this API key has expired; use another one")
        return key

    def _check_example(self, host: str | None) -> None:
        """Raise Problem where the key that everybody knows may not be used."""
        if not self._development:  # it may be in the database since a gateway in development added it
            raise unauthorized("this API key is an example that everybody knows; use another one")
        if not is_safe_host(host, self._public_url):
            raise Problem(HTTPStatus.FORBIDDEN, "host_refused", WRONG_HOST)

    def clear(self) -> None:
        """Forget all keys, because one was revoked."""
        self._cached = {}  # a new one: a lookup under way writes what it read before into the old one

    async def find_keys(self, hashes: list[bytes]) -> list[Key | None]:
        """Look up many keys at once, and note their use."""
        cached, now = self._cached, self._clock()
        found = await self._store.find_keys(hashes)
        if stale := [key.id for key in found.values() if key.stale and not key.has_expired]:
            with contextlib.suppress(Unavailable):  # not worth failing a request
                await self._store.note_uses(stale)
        if len(cached) + len(found) > MAX_CACHED:
            cached.clear()
        cached.update((key_hash, (key, now + cache_seconds(key))) for key_hash, key in found.items())
        return [found.get(key_hash) for key_hash in hashes]


def cache_seconds(key: Key) -> float:
    """Return for how many seconds a key may be cached: never beyond its expiry."""
    return CACHED_SECONDS if key.expires_in is None else max(0.0, min(CACHED_SECONDS, key.expires_in))


def read_token(header: str | None) -> str:
    """Return the key in an Authorization header. Raises Problem (401), without a word of the header: it is a secret."""
    scheme, _, token = (header or "").strip().partition(" ")
    token = token.strip()
    if not scheme:
        raise unauthorized(f"the API key is missing; {HOW}")
    if scheme.lower() != "bearer":
        mistake = "has another scheme than Bearer" if token else "lacks the word Bearer before the key"
        raise unauthorized(f"the Authorization header {mistake}; {HOW}")
    if not token:
        raise unauthorized(f"the Authorization header has no key after Bearer; {HOW}")
    if token[0] in WRAPPERS or token.lower().startswith("bearer "):
        raise unauthorized(f"the API key has quotes, brackets, a $ or a second Bearer before it; {HOW}")
    return token


class Authenticator:
    """Decides whether a caller may make a call."""

    def __init__(self, keys: KeyCache, limits: RateLimiter) -> None:
        self._keys = keys
        self._limits = limits

    async def authenticate(self, connection: Connection, check: Callable[[Connection], None] | None = None) -> Key:
        """Return the caller's key if it may make this call now.

        Raises Problem: 401, 403 or 429, and what `check` raises.
        """
        key = await self._find_key(connection)
        await self._limits.admit(key, connection.scope)
        check_scope(connection.route_handler, key.scopes)
        if check is not None:
            check(connection)
        return key

    async def recheck(self, connection: Connection) -> None:
        """Raise Problem (401) if the caller's key was revoked since it was authenticated."""
        await self._find_key(connection)

    async def _find_key(self, connection: Connection) -> Key:
        return await self._keys.find(connection.headers.get("authorization"), connection.headers.get("host"))


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
        key = await self._authenticator.authenticate(connection, self._check)
        find_lease(connection.scope).identify(key.tenant_id)
        return AuthenticationResult(user=key, auth=None)


async def ensure_tenant(store: KeyStore, encryptor: Encryptor, name: str, *, actor: str) -> UUID:
    """Return the tenant with this name; a new one gets a webhook secret of its own."""
    secret = encryptor.encrypt(webhook_signatures.new_secret("hmac").encode())
    await store.add_tenant(ids.new(), name, secret, actor=actor)
    tenant = await store.find_tenant(name)
    assert tenant is not None, "it was added just now, or existed before"
    return tenant
