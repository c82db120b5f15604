"""Finds the sessions of dispatchers that died."""

import time
from collections.abc import Callable, Set

from services.dispatcher.sessions.session_lock import SessionLock
from services.dispatcher.sessions.store import SessionStore

FREE_SECONDS = 2.0  # a live process takes a lost lock again within this time
MAX_GAP_SECONDS = 5.0  # between two searches; after a longer gap, what was seen before does not count


class LostSessions:
    def __init__(
        self, store: SessionStore, lock: SessionLock, interval: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`interval` is the time between two searches, in seconds."""
        self._store = store
        self._lock = lock
        self._max_gap = max(MAX_GAP_SECONDS, 2 * interval)
        self._clock = clock
        self._searched_at = float("-inf")
        self._free_since: dict[int, float] = {}

    async def find(self) -> list[int]:
        """Return the sessions that were free for two seconds. Judge none while all locks may have been lost."""
        own = self._lock.session if self._lock.is_steady else None
        free = await self._store.find_free_sessions(own) if own is not None else set()
        if own is None or own in free:  # the answer came from a server without our lock, so perhaps without any
            free = set()
        return self._note(free)

    def _note(self, free: Set[int]) -> list[int]:
        now = self._clock()
        if now - self._searched_at > self._max_gap:
            self._free_since.clear()
        self._searched_at = now
        self._free_since = {session: self._free_since.get(session, now) for session in free}
        return [session for session, since in self._free_since.items() if now - since >= FREE_SECONDS]
