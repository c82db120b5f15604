"""Limits how much of a kind of work runs at a time, for each party and for all, so that none holds up the others."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)


@dataclass
class Users:
    """Those of one party that wait or run."""

    permits: asyncio.Semaphore
    count: int = 0


class FairSemaphore(Generic[P]):
    """A few users of a party at a time, and a few more of all parties. Users of a party come in their order."""

    def __init__(
        self,
        total: int,
        *,
        each: int,
        most_users: int | None = None,
        refuse: Callable[[], Exception] = RuntimeError,
    ) -> None:
        """`each` is the number of permits of one party.

        If `most_users` of a party wait or run, another one gets the exception that `refuse` returns.
        """
        self._permits = asyncio.Semaphore(total)
        self._each = each
        self._most_users = most_users
        self._refuse = refuse
        self._parties: dict[P, Users] = {}

    @asynccontextmanager
    async def acquire(self, party: P) -> AsyncIterator[None]:
        """Wait for a permit."""
        users = self._parties.setdefault(party, Users(asyncio.Semaphore(self._each)))
        if self._most_users is not None and users.count >= self._most_users:
            raise self._refuse()
        users.count += 1
        try:
            async with users.permits, self._permits:
                yield
        finally:
            users.count -= 1
            if not users.count:
                del self._parties[party]
