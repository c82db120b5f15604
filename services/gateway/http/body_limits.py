"""Limits on request bodies: the memory that all of them hold together, and the time each may take to arrive."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from litestar.types import ASGIApp, Receive, Scope, Send

from services.gateway.http.problems import LATER, Problem

BODY_SECONDS = 60.0  # for a client to send its body
CLOSING_SECONDS = 2.0  # for the rest of a body once the gateway stops accepting connections
LEASE = "charonia.body"  # the key of a request's lease in its ASGI scope


class BodyBudget:
    """The bytes that all request bodies may hold together."""

    def __init__(self, total: int, each: int) -> None:
        """`total` bytes for all bodies, `each` for one that does not state its length."""
        self.total = self.free = total
        self.each = each


class BodyDeadlines:
    """Deadlines for bodies that are still arriving."""

    def __init__(self) -> None:
        self._closes_at = math.inf
        self._timeouts: set[asyncio.Timeout] = set()

    def close(self) -> None:
        """Shorten every deadline, so that a half-sent body does not delay the shutdown."""
        self._closes_at = asyncio.get_running_loop().time() + CLOSING_SECONDS
        for timeout in self._timeouts:
            if not timeout.expired():
                timeout.reschedule(min(timeout.when() or math.inf, self._closes_at))

    @asynccontextmanager
    async def enforce(self, deadline: float) -> AsyncIterator[None]:
        """Raise Problem once the deadline (on the loop's clock) is over: 408, or 503 if the gateway stops."""
        try:
            async with asyncio.timeout_at(min(deadline, self._closes_at)) as timeout:
                self._timeouts.add(timeout)
                try:
                    yield
                finally:
                    self._timeouts.discard(timeout)
        except TimeoutError:
            raise (too_slow() if deadline < self._closes_at else stopping()) from None


class BodyLease:
    """What one request's body holds of the budget, and how long it may take."""

    def __init__(self, budget: BodyBudget, deadlines: BodyDeadlines) -> None:
        self._budget = budget
        self._held: int | None = None
        self.deadlines = deadlines

    def reserve(self, length: str | None) -> None:
        """Hold memory for the whole body, once; `length` is its Content-Length. Raises Problem (503)."""
        if self._held is not None:
            return
        each = self._budget.each
        wanted = min(int(length), each) if length and length.isascii() and length.isdigit() else each
        if wanted > self._budget.free:
            raise overloaded()
        self._budget.free -= wanted
        self._held = wanted

    def grow(self, size: int) -> None:
        """Hold `size` more bytes, for a body that is read as it arrives.

        Raises Problem: 503 if no memory is free now, 413 if the budget could never hold it.
        """
        held = self._held or 0
        if held + size > self._budget.total:
            raise too_large(self._budget.total)
        if size > self._budget.free:
            raise overloaded()
        self._budget.free -= size
        self._held = held + size

    def release(self) -> None:
        """Give the memory back; may be called before the request ends."""
        self._budget.free += self._held or 0
        self._held = None


class BodyLimitsMiddleware:
    """Gives each request a lease, and releases it when the request ends."""

    def __init__(self, app: ASGIApp, budget: BodyBudget, deadlines: BodyDeadlines) -> None:
        self._app = app
        self._budget = budget
        self._deadlines = deadlines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        lease = BodyLease(self._budget, self._deadlines)
        scope[LEASE] = lease  # type: ignore[literal-required]
        try:
            await self._app(scope, receive, send)
        finally:
            lease.release()


def find_lease(scope: Scope) -> BodyLease:
    """Return the lease of the request with this scope."""
    lease: BodyLease = scope[LEASE]  # type: ignore[literal-required]
    return lease


def overloaded() -> Problem:
    text = "too many large requests at once; try again soon"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", text, headers=LATER)


def too_large(limit: int) -> Problem:
    text = f"the body and its decoded inputs exceed the limit of {limit} bytes; send less at a time"
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", text)


def too_slow() -> Problem:
    text = f"the body did not arrive within {BODY_SECONDS:g} s"
    return Problem(HTTPStatus.REQUEST_TIMEOUT, "body_too_slow", text)


def stopping() -> Problem:
    text = "this gateway is shutting down and the body has not arrived; send the request again"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers=LATER)
