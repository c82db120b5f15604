"""Limits on large outputs in responses: they hold room in a budget, and each has a time limit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from uuid import UUID

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from common.telemetry.logs import Log
from services.gateway.http.disconnects import while_connected
from services.gateway.http.limits.response_budget import ResponseBudget, Sending
from services.gateway.http.problems import Problem

LARGE = 256 * 1024  # bytes; smaller outputs are not counted
SLICE = 256 * 1024  # bytes that are sent at a time: only this much leaves the budget before the client has read it
READ_SECONDS = 30.0  # for a client to read a large response, and a second more for each MIN_RATE bytes
MIN_RATE = 64 * 1024  # bytes a second
LEASE = "charonia.response"  # the key of a response's lease in its ASGI scope

log = Log("http")


class ResponseLease:
    """What one response holds of the budget. A stream reserves and releases once for each large event.

    `is_cut` is true once the client was too slow, or the rest cannot be read. The client then gets nothing more.
    """

    def __init__(self, budget: ResponseBudget, receive: Receive | None = None) -> None:
        """`receive` is that of ASGI. It says when the client has gone; a WebSocket needs its own messages."""
        self.is_cut = False
        self._budget = budget
        self._receive = receive
        self._held: tuple[UUID, int] | None = None

    @property
    def is_held(self) -> bool:
        return self._held is not None

    async def reserve(self, tenant_id: UUID, size: int) -> None:
        """Hold `size` bytes, once. Waits for room. Raises Problem: 503, or 408 after the client has gone."""
        if self._held is None and self._receive is None:
            await self._acquire(tenant_id, size)
        elif self._held is None and not await while_connected(self._receive, self._acquire(tenant_id, size)):
            raise Problem(HTTPStatus.REQUEST_TIMEOUT, "client_gone", "the client disconnected")

    async def _acquire(self, tenant_id: UUID, size: int) -> None:
        self._held = tenant_id, await self._budget.acquire(tenant_id, size)

    def shrink(self, size: int) -> None:
        """Give back what is held beyond `size` bytes."""
        if self._held is not None and size < self._held[1]:
            tenant_id, held = self._held
            self._held = tenant_id, size
            self._budget.release(tenant_id, held - size)

    def cut(self) -> None:
        """Send nothing more, so that the client sees that the response is incomplete."""
        self.is_cut = True

    def release(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._budget.release(*held)

    @asynccontextmanager
    async def send_in_time(self, size: int) -> AsyncIterator[Sending]:
        """Limit the time to send a message of `size` bytes. Cut the client if it is too slow."""
        assert self._held is not None, "only large messages have a limit"
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(READ_SECONDS + size / MIN_RATE) as timeout:
                with self._budget.watch(self._held[0], timeout) as sending:
                    yield sending
        except TimeoutError:
            log.warning("client.too_slow", bytes=size, seconds=round(clock() - began, 3))
            self.is_cut = True


class ResponseLimitsMiddleware:
    """Gives each request a lease for its response, and releases it when the response is sent."""

    def __init__(self, app: ASGIApp, budget: ResponseBudget) -> None:
        self._app = app
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        lease = ResponseLease(self._budget, receive if scope["type"] == ScopeType.HTTP else None)
        scope[LEASE] = lease  # type: ignore[literal-required]
        ending = asyncio.timeout(None)

        async def send_slowly(message: Message) -> None:
            if lease.is_cut:
                ending.reschedule(0)  # the response stays incomplete, so the server closes the connection
                return
            if lease.is_held and message["type"] == "http.response.body":
                body = message["body"]
                async with lease.send_in_time(len(body)) as sending:
                    await send_slices(body, message.get("more_body", False), send, sending)
            elif lease.is_held and message["type"] == "websocket.send":
                size = len(message.get("text") or "")
                async with lease.send_in_time(size) as sending:
                    sending.expect(size)
                    await send(message)
            else:
                await send(message)

        try:
            async with ending:
                await self._app(scope, receive, send_slowly)
        except TimeoutError:
            if not ending.expired():
                raise
        finally:
            lease.release()


async def send_slices(body: bytes, more_body: bool, send: Send, sending: Sending) -> None:
    """Send a body in slices."""
    for offset in range(0, len(body) or 1, SLICE):
        sending.expect(min(SLICE, len(body) - offset))
        is_last = offset + SLICE >= len(body)
        await send(
            {
                "type": "http.response.body",
                "body": body[offset : offset + SLICE],
                "more_body": more_body or not is_last,
            }
        )


def find_response_lease(scope: Scope) -> ResponseLease:
    """Return the lease of the response to the request with this scope."""
    lease: ResponseLease = scope[LEASE]  # type: ignore[literal-required]
    return lease
