"""The tenant's API keys."""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime

from charonia._async.pages import list_pages
from charonia._async.transport import AsyncTransport
from charonia.admin_schemas import KeyData, Scope
from charonia.calls import Call, get, post
from charonia.paths import make_path


class AsyncKeys:
    """The tenant's API keys. The client's own key needs the scope `admin`."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(
        self,
        name: str,
        scopes: Sequence[Scope],
        *,
        models: Sequence[str] | None = None,
        rate_limit: int | None = None,
        expires_at: datetime | None = None,
    ) -> KeyData:
        """Make a key. Keep its `key`: it is shown only now. By default it has the limits of the client's own key.

        `models` are names or patterns such as `ocr*`, `rate_limit` is in requests a second. Raise Forbidden for more
        than the client's own key has.
        """
        body = {
            "name": name,
            "scopes": scopes,
            "models": models,
            "rate_limit": rate_limit,
            "expires_at": expires_at,
        }
        return await self._transport.call(post("/v1/keys", body), KeyData)

    async def get(self, key_id: str) -> KeyData:
        """Return a key that is not revoked. Raise NotFound."""
        return await self._transport.call(get(make_path("keys", key_id)), KeyData)

    async def list(self) -> AsyncGenerator[KeyData, None]:
        """Yield the keys that are not revoked, oldest first."""
        async for key in list_pages(self._transport, "/v1/keys", KeyData):
            yield key

    async def revoke(self, key_id: str) -> None:
        """Revoke a key for good. Its streams and waits end. Raise Conflict for the client's own key."""
        await self._transport.send(Call("DELETE", make_path("keys", key_id), repeatable=False))
