"""Limits on request bodies: the memory that all of them hold together, and the time each may take to arrive.

A body holds what has arrived of it, never what it announces. Each tenant has a share of the memory.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TypeAlias
from uuid import UUID

from litestar.types import ASGIApp, Receive, Scope, Send

from common.fair_budget import FairBudget
from services.gateway.http.problems import LATER, Problem

BODY_SECONDS = 60.0  # for a client to send its body
STALL_SECONDS = 10.0  # between two parts of it
CLOSING_SECONDS = 2.0  # for the rest of a body once the gateway stops accepting connections
LEASE = "charonia.body"  # the key of a request's lease in its ASGI scope

BodyBudget: TypeAlias = FairBudget[UUID | None]  # of all bodies; a party is a tenant


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
        self._held = 0
        self._tenant: UUID | None = None
        self.deadlines = deadlines

    @property
    def most(self) -> int:
        """Return how many more bytes the body could ever hold."""
        return self._budget.largest - self._held

    def identify(self, tenant: UUID) -> None:
        """Count the body for its tenant. Without a tenant, it shares with all others that have none."""
        assert not self._held, "a request is authenticated before its body is read"
        self._tenant = tenant

    def grow(self, size: int) -> None:
        """Hold `size` more bytes, which have arrived. Raises as `resize` does."""
        self.resize(self._held + size)

    def ensure(self, size: int) -> None:
        """Hold at least `size` bytes in all. Raises as `resize` does."""
        self.resize(max(self._held, size))

    def resize(self, size: int) -> None:
        """Hold `size` bytes in all.

        Raises Problem: 503 if the tenant's share has no room for more now, 413 if it could never hold them.
        """
        more = size - self._held
        if more > 0 and size > self._budget.largest:
            raise too_large(self._budget.largest)
        if more > 0 and more > self._budget.room(self._tenant):
            raise overloaded()
        self._budget.take(self._tenant, more)
        self._held = size

    def release(self) -> None:
        """Give the memory back; may be called before the request ends."""
        self.resize(0)


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
    text = "too many large requests at once, of this tenant or of all; send fewer at a time, and try again soon"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", text, headers=LATER)


def too_large(limit: int) -> Problem:
    text = f"the body and its decoded inputs exceed the limit of {limit} bytes; send less at a time"
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", text)


def too_slow() -> Problem:
    text = (
        f"the body took more than {BODY_SECONDS:g} s, or paused for {STALL_SECONDS:g} s; send it again without pauses"
    )
    return Problem(HTTPStatus.REQUEST_TIMEOUT, "body_too_slow", text)


def stopping() -> Problem:
    text = "this gateway is shutting down and the body has not arrived; send the request again"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers=LATER)
