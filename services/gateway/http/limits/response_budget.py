"""The memory that large outputs in all responses hold together, and who gets it.

Room goes back when a response is sent. While others wait for room, a client that reads too slowly loses its own.
"""

import asyncio
import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from uuid import UUID

from common.fair_budget import FairBudget
from services.gateway.http.problems import LATER, Problem

WAIT_SECONDS = 10.0  # for room
MAX_WAITING = 100  # responses of one tenant that wait for room
CHECK_SECONDS = 1.0  # between two looks for a client that is too slow, while a response waits
GRACE_SECONDS = 5.0  # for a client to begin to read
PACE = 1024 * 1024  # bytes a second that a client must read while others wait


class Reservation:
    """A response that waits for room."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.granted = asyncio.Event()


class Sending:
    """A large message on its way to a client of a tenant."""

    def __init__(self, tenant_id: UUID, timeout: asyncio.Timeout) -> None:
        self.tenant_id = tenant_id
        self.expected_at = math.inf  # when a client at the least pace has read what it got
        self._timeout = timeout

    def expect(self, size: int) -> None:
        """Expect the client to read the next `size` bytes.

        A fast start earns no more than the grace: the first megabytes wait in the buffers of the network.
        """
        now = asyncio.get_running_loop().time()
        self.expected_at = min(self.expected_at, now + GRACE_SECONDS) + size / PACE

    def cut(self) -> None:
        self._timeout.reschedule(asyncio.get_running_loop().time())


class ResponseBudget:
    """The bytes of large outputs that all responses hold together.

    A tenant takes no more than it leaves free, so one holds half at most, and two leave a third. A tenant that holds
    nothing may have one response of any size. Room goes to the tenant that holds least. Within a tenant, it goes to the
    response that has waited longest.

    Slow clients may hold all room. So a response that waits cuts the slowest of them, of its own tenant or of one that
    holds more.
    """

    def __init__(self, total: int) -> None:
        self._budget: FairBudget[UUID] = FairBudget(total, share=1)
        self._waiting: dict[UUID, deque[Reservation]] = {}
        self._sending: set[Sending] = set()

    @property
    def free(self) -> int:
        return self._budget.free

    async def acquire(self, tenant_id: UUID, size: int) -> int:
        """Wait for room. Return how many bytes are held, to release. Raises Problem (503)."""
        waiting = self._waiting.setdefault(tenant_id, deque())
        if len(waiting) >= MAX_WAITING:
            raise overloaded()
        reservation = Reservation(min(size, self._budget.total))
        waiting.append(reservation)
        self._grant()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._wait(tenant_id, reservation)
        except BaseException as error:  # also a cancel, because the client has disconnected
            self._leave(tenant_id, reservation)
            if isinstance(error, TimeoutError):
                raise overloaded() from None
            raise
        return reservation.size

    def release(self, tenant_id: UUID, size: int) -> None:
        self._budget.take(tenant_id, -size)
        self._grant()

    @contextmanager
    def watch(self, tenant_id: UUID, timeout: asyncio.Timeout) -> Iterator[Sending]:
        """Let others expire the timeout of a large message while its client reads too slowly."""
        sending = Sending(tenant_id, timeout)
        self._sending.add(sending)
        try:
            yield sending
        finally:
            self._sending.discard(sending)

    async def _wait(self, tenant_id: UUID, reservation: Reservation) -> None:
        while True:
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await reservation.granted.wait()
            except TimeoutError:
                if not reservation.granted.is_set() and self._waiting[tenant_id][0] is reservation:
                    self._cut_slowest(tenant_id)
            else:
                return

    def _cut_slowest(self, tenant_id: UUID) -> None:
        """Cut the slowest client that is too slow, of this tenant or of one that holds more."""
        now, held = asyncio.get_running_loop().time(), self._budget.held
        slow = [
            sending
            for sending in self._sending
            if sending.expected_at < now
            and (sending.tenant_id == tenant_id or held(sending.tenant_id) > held(tenant_id))
        ]
        if slow:
            slowest = min(slow, key=lambda sending: sending.expected_at)
            self._sending.remove(slowest)
            slowest.cut()

    def _leave(self, tenant_id: UUID, reservation: Reservation) -> None:
        if reservation.granted.is_set():
            self.release(tenant_id, reservation.size)
        else:
            self._remove(tenant_id, reservation)
            self._grant()  # the next one may need less

    def _remove(self, tenant_id: UUID, reservation: Reservation) -> None:
        self._waiting[tenant_id].remove(reservation)
        if not self._waiting[tenant_id]:
            del self._waiting[tenant_id]

    def _grant(self) -> None:
        """Give free room to those who wait. A response that needs more than is free lets smaller ones pass."""
        while ready := [tenant for tenant, queue in self._waiting.items() if self._fits(tenant, queue[0].size)]:
            tenant = min(ready, key=self._budget.held)
            reservation = self._waiting[tenant][0]
            self._remove(tenant, reservation)
            self._budget.take(tenant, reservation.size)
            reservation.granted.set()

    def _fits(self, tenant_id: UUID, size: int) -> bool:
        return size <= (self._budget.room(tenant_id) if self._budget.held(tenant_id) else self._budget.free)


def overloaded() -> Problem:
    text = (
        f"no room for this answer within {WAIT_SECONDS:g} s, because other large ones are being read; "
        "try again soon, and read fewer at a time"
    )
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", text, headers=LATER)
