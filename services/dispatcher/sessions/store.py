"""Locks sessions in the database, and finds those that nobody holds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from common.postgres import sql
from common.postgres.database import Connection, Database

QUERIES = sql.load("services.dispatcher.sessions")
CHECK_SECONDS = 5.0  # between checks whether the server still answers, for a connection that broke without a sign


class LockedSession:
    """A lock, which ends with its connection."""

    def __init__(self, connection: Connection, seconds_up: float) -> None:
        """`seconds_up` is how long the server has kept its connections."""
        self.seconds_up = seconds_up
        self._connection = connection
        self._closed = asyncio.Event()
        connection.add_termination_listener(lambda _: self._closed.set())

    async def hold(self) -> None:
        """Keep the lock until the connection ends, which raises DatabaseUnavailable."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._closed.wait()
            await self._connection.execute("SELECT 1", timeout=CHECK_SECONDS)


class SessionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    @contextlib.asynccontextmanager
    async def lock(self, session: int) -> AsyncIterator[LockedSession | None]:
        """Lock a session on a connection of its own, or not behind a pooler. Raise DatabaseUnavailable in an outage."""
        async with self._database.acquire(lasting=True) as connection:
            record = await connection.fetchrow(QUERIES["lock_session"], session, connection.get_server_pid())
            assert record is not None
            yield None if record["is_pooled"] else LockedSession(connection, record["seconds_up"])

    async def note_liveness(self, worker: str) -> None:
        """Record that a dispatcher lives."""
        await self._database.fetch(QUERIES["note_liveness"], worker)

    async def find_free_sessions(self, own: int) -> set[int]:
        """Return the sessions of running jobs and of models that nobody holds, and `own` if nobody holds it."""
        return {record["session"] for record in await self._database.fetch(QUERIES["find_free_sessions"], own)}

    async def forget_models(self, sessions: Sequence[int]) -> None:
        """Make the models of these sessions count as not ready."""
        await self._database.fetch(QUERIES["forget_models"], sessions)
