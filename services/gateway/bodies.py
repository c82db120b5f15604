"""Bodies read as they arrive, bounded in time and, together with all others, in memory."""

import asyncio
import hashlib
import math
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from litestar import Request

from services.gateway.errors import LATER, Problem
from services.gateway.items import list_items, split_lines
from services.gateway.media import check_json
from services.gateway.workers import Workers

MAX_ITEMS = 10_000
BODY_SECONDS = 60.0  # for a client to send its body,
LAST_SECONDS = 2.0  # or what is left of it once a gateway that stops takes no connections
LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")


class Patience:
    """How long bodies are waited for."""

    def __init__(self) -> None:
        self.until = math.inf
        self.waits: set[asyncio.Timeout] = set()

    def end(self) -> None:
        """For a gateway that stops: whoever has sent half of a body does not hold it up."""
        self.until = asyncio.get_running_loop().time() + LAST_SECONDS
        for wait in self.waits:
            if not wait.expired():
                wait.reschedule(min(wait.when() or math.inf, self.until))

    @asynccontextmanager
    async def wait(self, deadline: float) -> AsyncIterator[None]:
        """Raises Problem: 408 where the deadline (of the loop's clock) is over, 503 where the gateway stops."""
        try:
            async with asyncio.timeout_at(min(deadline, self.until)) as timeout:
                self.waits.add(timeout)
                try:
                    yield
                finally:
                    self.waits.discard(timeout)
        except TimeoutError:
            raise (too_slow() if deadline < self.until else too_late()) from None


class Items:
    """The items of a body: lines of JSON, or a JSON list. To be iterated over once."""

    def __init__(self, request: Request[Any, Any, Any], longest: int, workers: Workers) -> None:
        """At most `longest` bytes for a list, and for a line."""
        self.request = request
        self.workers = workers
        self.longest = longest
        self.digest = hashlib.sha256()  # of all that came so far

    async def __aiter__(self) -> AsyncIterator[bytes | str]:
        if check_json(self.request.headers, LINES) in LINES:
            async for line in split_lines(self.read(), self.longest):
                yield line
            return
        body = bytearray()
        async for chunk in self.read():
            body += chunk
            if len(body) > self.longest:
                text = f"the list is over the limit of {self.longest} bytes; send lines of JSON as {LINES[0]}"
                raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", text)
        self.hold(len(body))  # as text it is there once more
        for item in await self.workers.work(len(body), list_items, bytes(body), MAX_ITEMS + 1):
            yield item

    async def skip(self) -> bytes:
        """The digest of all of it, of which nothing else is wanted."""
        async for _ in self.read():
            continue
        return self.digest.digest()

    def hold(self, size: int) -> None:
        """Counts bytes that are kept beside those of the body; raises Problem (413, 503) where there is no room."""
        self.request.app.state.budget.grow(self.request.scope, size)

    async def read(self) -> AsyncIterator[bytes]:
        patience: Patience = self.request.app.state.patience
        deadline = asyncio.get_running_loop().time() + BODY_SECONDS
        stream = self.request.stream()
        while True:
            async with patience.wait(deadline):
                chunk = await anext(stream, b"")
            if not chunk:
                return
            self.request.app.state.budget.grow(self.request.scope, len(chunk))
            self.digest.update(chunk)
            yield chunk


async def in_time(request: Request[Any, Any, Any], reading: Awaitable[bytes]) -> bytes:
    """Raises Problem (408, 503) where the body has not come in time."""
    patience: Patience = request.app.state.patience
    async with patience.wait(asyncio.get_running_loop().time() + BODY_SECONDS):
        return await reading


def forget_body(request: Request[Any, Any, Any]) -> None:
    """Before a long wait: its body is held no longer, and others have its room. Litestar keeps it in two places."""
    request._body = request._connection_state.body = b""
    request.app.state.budget.release(request.scope)


def too_slow() -> Problem:
    text = f"the body did not arrive within {BODY_SECONDS:g} s"
    return Problem(HTTPStatus.REQUEST_TIMEOUT, "body_too_slow", text)


def too_late() -> Problem:
    text = "this gateway stops, and the body has not come; send the request again"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers=LATER)
