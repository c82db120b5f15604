"""Sends events to a URL as Charonia sends webhooks."""

import asyncio
import time
from types import TracebackType

import httpx
import msgspec

from charonia.cli.arguments import InvalidArgument
from charonia.cli.listen.fed_events import FedEvent
from charonia.errors import ConfigurationError
from charonia.version import VERSION
from charonia.webhook_signatures import sign

ATTEMPT_SECONDS = 15.0  # as Charonia waits for an answer
MOST_ANSWER_BYTES = 64 * 1024  # as Charonia takes


class Answer(msgspec.Struct, frozen=True):
    """What became of an attempt. Without an error it was accepted."""

    status_code: int | None
    error: str | None
    ms: float


def check_target(url: str) -> str:
    """Return the URL to forward to. Raise InvalidArgument if nothing can be sent there."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidArgument(f"--forward {url!r}: {error}; write http://localhost:3000/hook") from None
    if parsed.scheme not in ("http", "https") or not parsed.host or not 0 < (parsed.port or 80) < 65_536:
        raise InvalidArgument(f"--forward {url!r} is no URL of a server; write http://localhost:3000/hook")
    return url


def check_secret(secret: str) -> str:
    """Return the secret to sign with. Raise InvalidArgument if it is none."""
    try:
        sign(secret, "", 0, b"")
    except ConfigurationError:  # it says nothing about the option
        raise InvalidArgument(
            "the secret must be whsec_ and base64; correct --secret or CHARONIA_WEBHOOK_SECRET, or leave both out"
        ) from None
    return secret


class LocalReceiver:
    """One URL. It gets signed requests over connections that stay open."""

    def __init__(self, url: str, secret: str, concurrency: int) -> None:
        self._url = url
        self._secret = secret
        limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
        # With a transport of its own, the client uses no proxy of the environment: a local server is not behind one.
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(limits=limits),
            timeout=ATTEMPT_SECONDS,
            headers={
                "accept-encoding": "identity",
                "content-type": "application/json",
                "user-agent": f"Charonia/{VERSION}",
            },
        )

    async def __aenter__(self) -> "LocalReceiver":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def send(self, event: FedEvent) -> Answer:
        """Send an event once, and return what became of it."""
        began = time.perf_counter()
        status_code, error = None, None
        try:
            status_code, is_whole = await asyncio.wait_for(self._post(event), ATTEMPT_SECONDS)
            if not 200 <= status_code < 300:
                error = str(status_code)
            elif not is_whole:
                error = "answer over 64 KiB"
        except (asyncio.TimeoutError, httpx.TimeoutException):
            error = "timeout"
        except httpx.ConnectError:
            error = "unreachable"
        except httpx.HTTPError:
            error = "cut off"
        return Answer(status_code, error, (time.perf_counter() - began) * 1000)

    async def _post(self, event: FedEvent) -> tuple[int, bool]:
        """Return the status code, and whether the body of the answer was within the limit."""
        timestamp = int(time.time())
        headers = {
            "webhook-id": event.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(self._secret, event.id, timestamp, event.body),
        }
        async with self._http.stream("POST", self._url, content=event.body, headers=headers) as response:
            size = 0
            async for chunk in response.aiter_raw():
                size += len(chunk)
                if size > MOST_ANSWER_BYTES:
                    return response.status_code, False
            return response.status_code, True
