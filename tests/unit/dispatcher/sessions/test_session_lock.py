"""A process holds its lock, takes it again, and trusts the locks of others only if they had time to do the same."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from common.errors import DatabaseUnavailable
from services.dispatcher.sessions.session_lock import SessionLock
from services.dispatcher.sessions.store import LockedSession, SessionStore
from tests.unit.clock import Clock

LEASE = 30.0
HOUR = 3600.0


class Server(SessionStore):
    """A server that ends its connections when the test says so."""

    def __init__(self, seconds_up: float = HOUR, *, is_pooled: bool = False) -> None:
        self.seconds_up = seconds_up
        self.is_pooled = is_pooled
        self.sessions: list[int] = []
        self.connections = 0
        self.locked = asyncio.Event()
        self.failing = asyncio.Event()

    @contextlib.asynccontextmanager
    async def lock(self, session: int) -> AsyncIterator["FakeSession | None"]:
        self.connections += 1
        try:
            self.sessions.append(session)
            self.locked.set()
            yield None if self.is_pooled else FakeSession(self)
        finally:
            self.connections -= 1

    async def end_connections(self) -> None:
        self.locked.clear()
        self.failing.set()
        await asyncio.sleep(0)
        self.failing.clear()


class FakeSession(LockedSession):
    """A lock, which ends with the connections of its server."""

    def __init__(self, server: Server) -> None:
        self.seconds_up = server.seconds_up
        self._failing = server.failing

    async def hold(self) -> None:
        await self._failing.wait()
        raise DatabaseUnavailable


@contextlib.asynccontextmanager
async def running(server: Server, clock: Clock) -> AsyncIterator[SessionLock]:
    lock = SessionLock(server, LEASE, clock)
    task = asyncio.create_task(lock.run())
    await asyncio.wait_for(server.locked.wait(), 10)
    yield lock
    task.cancel()
    await asyncio.wait([task])


async def test_claims_carry_the_session_while_the_lock_is_held() -> None:
    assert SessionLock(Server(), LEASE).session is None
    server = Server()
    async with running(server, Clock()) as lock:
        assert server.sessions == [lock.session]
        await server.end_connections()
        assert (lock.session, lock.is_steady) == (None, False)
        await asyncio.wait_for(server.locked.wait(), 10)
        assert server.sessions == [lock.session] * 2


@pytest.mark.parametrize("seconds_up", [LEASE, HOUR])
async def test_a_new_process_trusts_the_locks_on_a_server_that_kept_them(seconds_up: float) -> None:
    async with running(Server(seconds_up), Clock()) as lock:
        assert lock.is_steady


async def test_after_a_start_of_the_server_others_may_take_a_lease_to_come_back() -> None:
    clock = Clock()
    async with running(Server(10.0), clock) as lock:
        clock.now = 19.5
        assert not lock.is_steady
        clock.now = 20.0
        assert lock.is_steady


async def test_after_a_lost_lock_others_may_take_a_lease_to_come_back() -> None:
    server, clock = Server(), Clock()
    async with running(server, clock) as lock:
        await server.end_connections()
        await asyncio.wait_for(server.locked.wait(), 10)
        clock.now = LEASE - 1
        assert not lock.is_steady
        clock.now = LEASE
        assert lock.is_steady


async def test_behind_a_pooler_there_is_no_session() -> None:
    server = Server(is_pooled=True)
    async with running(server, Clock()) as lock:
        assert (lock.session, lock.is_steady) == (None, False)
        assert server.connections == 0
