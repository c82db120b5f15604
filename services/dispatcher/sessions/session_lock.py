"""Holds a lock in PostgreSQL that shows other dispatchers that this process lives.

The server frees the lock when its connection ends. The connection of a killed process ends at once. A process that is
slow, frozen or cut off keeps its connection, and so its lock.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable

from common.errors import Unavailable
from common.telemetry.logs import Log
from services.dispatcher.sessions.store import SessionStore

RETRY_SECONDS = 0.2
LIVENESS_SECONDS = 2.0  # the view served_now counts a dispatcher as gone after four times as long

log = Log("session")


class SessionLock:
    """The session of this process. Its jobs carry the session while the lock is held."""

    def __init__(self, store: SessionStore, lease: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`lease` is in seconds."""
        self._store = store
        self._lease = lease
        self._clock = clock
        self._key = secrets.randbits(63)
        self._held = False
        self._steady_at: float | None = None

    @property
    def session(self) -> int | None:
        """The session for claims. None without the lock: then the lease alone shows whether this process lives."""
        return self._key if self._held else None

    @property
    def is_steady(self) -> bool:
        """Whether a free lock means a dead process.

        An outage ends all connections. After it every other process may take the length of a lease to come back.
        """
        return self._held and self._steady_at is not None and self._clock() >= self._steady_at

    async def run(self) -> None:
        """Hold the lock until cancelled. Take it again when its connection ends."""
        while True:
            with contextlib.suppress(Unavailable):
                if await self._hold():
                    await asyncio.Event().wait()  # for ever: leases alone decide
            await asyncio.sleep(RETRY_SECONDS)

    async def _hold(self) -> bool:
        """Hold the lock until its connection ends, which raises Unavailable. Return True behind a pooler."""
        async with self._store.lock(self._key) as locked:
            if locked is None:
                log.warning("session.pooled")
                return True
            up = locked.seconds_up if self._steady_at is None else 0.0  # a lost lock may be a sign of an outage
            self._steady_at = self._clock() + self._lease - up
            self._held = True
            try:
                await locked.hold()
            except Unavailable as error:
                log.warning("session.lost", error=error)
                raise
            finally:
                self._held = False
        return False


async def show_liveness(store: SessionStore, worker: str) -> None:
    """Say in the database that a dispatcher lives, until cancelled. So clients see soon that one is dead or frozen."""
    while True:
        with contextlib.suppress(Unavailable):  # other loops log an outage
            await store.note_liveness(worker)
        await asyncio.sleep(LIVENESS_SECONDS)
