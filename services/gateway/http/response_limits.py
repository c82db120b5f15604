"""Limits on large outputs in responses: the memory that all of them hold together, and the time each may take."""

import asyncio
from collections import deque
from collections.abc import Awaitable
from http import HTTPStatus
from uuid import UUID

from litestar.types import ASGIApp, Message, Receive, Scope, Send

from common.fair_budget import FairBudget
from common.telemetry.logs import Log
from services.gateway.http.problems import LATER, Problem

LARGE = 256 * 1024  # bytes; smaller outputs are not counted
WAIT_SECONDS = 10.0  # for room
MAX_WAITING = 100  # responses of one tenant that wait for room
SLICE = 256 * 1024  # bytes that are sent at a time: only this much leaves the budget before the client has read it
READ_SECONDS = 30.0  # for a client to read a large response, and a second more for each MIN_RATE bytes
MIN_RATE = 64 * 1024  # bytes a second
LEASE = "charonia.response"  # the key of a response's lease in its ASGI scope

log = Log("http")


class Place:
    """A response that waits for room."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.granted = asyncio.Event()


class ResponseBudget:
    """The bytes of large outputs that all responses hold together.

    A tenant takes no more than it leaves free, so one holds half at most, and two leave a third. A tenant that holds
    nothing may have one response of any size. Room goes to the tenant that holds least. Within a tenant, it goes to the
    response that has waited longest.
    """

    def __init__(self, total: int) -> None:
        self._budget: FairBudget[UUID] = FairBudget(total, share=1)
        self._waiting: dict[UUID, deque[Place]] = {}

    @property
    def free(self) -> int:
        return self._budget.free

    async def acquire(self, tenant_id: UUID, size: int) -> int:
        """Wait for room. Return how many bytes are held, to release. Raises Problem (503)."""
        waiting = self._waiting.setdefault(tenant_id, deque())
        if len(waiting) >= MAX_WAITING:
            raise overloaded()
        place = Place(min(size, self._budget.total))
        waiting.append(place)
        self._grant()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await place.granted.wait()
        except BaseException as error:  # also a cancel, because the client has disconnected
            self._leave(tenant_id, place)
            if isinstance(error, TimeoutError):
                raise overloaded() from None
            raise
        return place.size

    def release(self, tenant_id: UUID, size: int) -> None:
        self._budget.take(tenant_id, -size)
        self._grant()

    def _leave(self, tenant_id: UUID, place: Place) -> None:
        if place.granted.is_set():
            self.release(tenant_id, place.size)
        else:
            self._remove(tenant_id, place)

    def _remove(self, tenant_id: UUID, place: Place) -> None:
        self._waiting[tenant_id].remove(place)
        if not self._waiting[tenant_id]:
            del self._waiting[tenant_id]

    def _grant(self) -> None:
        """Give free room to those who wait. A response that needs more than is free lets smaller ones pass."""
        while ready := [tenant for tenant, places in self._waiting.items() if self._fits(tenant, places[0].size)]:
            tenant = min(ready, key=self._budget.held)
            place = self._waiting[tenant][0]
            self._remove(tenant, place)
            self._budget.take(tenant, place.size)
            place.granted.set()

    def _fits(self, tenant_id: UUID, size: int) -> bool:
        return size <= (self._budget.room(tenant_id) if self._budget.held(tenant_id) else self._budget.free)


class ResponseLease:
    """What one response holds of the budget. A stream reserves and releases once for each large event.

    `is_cut` is true once the client was too slow. It then gets nothing more.
    """

    def __init__(self, budget: ResponseBudget) -> None:
        self.is_cut = False
        self._budget = budget
        self._held: tuple[UUID, int] | None = None

    @property
    def is_held(self) -> bool:
        return self._held is not None

    async def reserve(self, tenant_id: UUID, size: int) -> None:
        """Hold `size` bytes, once. Waits for room. Raises Problem (503)."""
        if self._held is None:
            self._held = tenant_id, await self._budget.acquire(tenant_id, size)

    def release(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._budget.release(*held)


class ResponseLimitsMiddleware:
    """Gives each request a lease for its response, and releases it when the response is sent."""

    def __init__(self, app: ASGIApp, budget: ResponseBudget) -> None:
        self._app = app
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        lease = ResponseLease(self._budget)
        scope[LEASE] = lease  # type: ignore[literal-required]

        async def send_slowly(message: Message) -> None:
            if lease.is_cut:
                return  # the response stays incomplete, so the server closes the connection
            if lease.is_held and message["type"] == "http.response.body":
                body = message["body"]
                sending = send_slices(body, message.get("more_body", False), send)
                lease.is_cut = not await send_in_time(len(body), sending)
            elif lease.is_held and message["type"] == "websocket.send":
                lease.is_cut = not await send_in_time(len(message.get("text") or ""), send(message))
            else:
                await send(message)

        try:
            await self._app(scope, receive, send_slowly)
        finally:
            lease.release()


async def send_in_time(size: int, sending: Awaitable[None]) -> bool:
    """Send a large message. Return False if the client was too slow for its `size` in bytes."""
    seconds = READ_SECONDS + size / MIN_RATE
    try:
        async with asyncio.timeout(seconds):
            await sending
    except TimeoutError:
        log.warning("client.too_slow", bytes=size, seconds=seconds)
        return False
    return True


async def send_slices(body: bytes, more_body: bool, send: Send) -> None:
    """Send a body in slices."""
    for offset in range(0, len(body) or 1, SLICE):
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


def overloaded() -> Problem:
    text = (
        f"no room for these outputs within {WAIT_SECONDS:g} s, because other large outputs are being read; "
        "try again soon, and read fewer at a time"
    )
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", text, headers=LATER)
