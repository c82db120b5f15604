"""Bounds the claimed jobs that fetch inputs, and shares the permits fairly among tenants."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID

from common.fair_budget import FairBudget

# Without this bound, all jobs of a tenant with slow URLs would be claimed, and want the next slots before others.
USUAL = 8  # jobs of a tenant and a model that may fetch at a time, or as many as the model has slots


class FetchParty(NamedTuple):
    """The jobs of a tenant for a model."""

    model: str
    tenant: UUID


class Waiter(NamedTuple):
    party: FetchParty
    most: int
    permit: asyncio.Future[None]


class FetchPermits:
    """The jobs that fetch, or wait with what they fetched. They hold no slot of their model meanwhile.

    A tenant has at most `most` of them for a model, so the jobs of others find few before them when they want a slot.
    Of all permits in this dispatcher, nobody takes more than three quarters of what others leave. A tenant without
    one may take the last one. While a job waits for a permit, this dispatcher claims no other job of its tenant for its
    model.
    """

    def __init__(self, total: int, wake_next: Callable[[str], object] = lambda _: None) -> None:
        """`wake_next` announces the next jobs of a model: messages that came while a tenant waited are gone."""
        self._permits: FairBudget[UUID] = FairBudget(total)
        self._held: Counter[FetchParty] = Counter()
        self._waiters: list[Waiter] = []  # oldest first
        self._skipped: Counter[FetchParty] = Counter()  # claims that got no job and were not made up for
        self._wake_next = wake_next

    def list_waiting(self, model: str) -> set[UUID]:
        """Return the tenants whose jobs a claim must leave queued."""
        return {waiter.party.tenant for waiter in self._waiters if waiter.party.model == model}

    def note_skipped(self, model: str, tenants: Iterable[UUID], claims: int) -> None:
        """Record claims that got no job, and may have left jobs of these tenants queued."""
        for party in (FetchParty(model, tenant) for tenant in tenants):
            self._skipped[party] += claims
            self._wake(party, USUAL)  # it may have stopped waiting meanwhile

    async def acquire(self, party: FetchParty, most: int = USUAL) -> None:
        """Return with a permit. End it with `release`."""
        waiter = Waiter(party, most, asyncio.get_running_loop().create_future())
        if self._may_fetch(waiter):
            self._take(party)
            return
        self._waiters.append(waiter)
        try:
            await waiter.permit
        except asyncio.CancelledError:
            if waiter.permit.cancelled():
                self._waiters.remove(waiter)
                self._wake(party, self._count_next(waiter))
            else:
                self.release(party)  # it got its permit just before it was cancelled
            raise

    def release(self, party: FetchParty) -> None:
        self._permits.take(party.tenant, -1)
        self._held[party] -= 1
        granted = self._grant()
        for each, count in ({party: 1} | {waiter.party: self._count_next(waiter) for waiter in granted}).items():
            self._wake(each, count)
        if not self._held[party]:
            del self._held[party]

    def _grant(self) -> list[Waiter]:
        """Give permits to waiters. Return those that got one."""
        granted = []
        for waiter in [*self._waiters]:
            if self._may_fetch(waiter):
                self._waiters.remove(waiter)
                self._take(waiter.party)
                waiter.permit.set_result(None)
                granted.append(waiter)
        return granted

    def _may_fetch(self, waiter: Waiter) -> bool:
        return self._held[waiter.party] < waiter.most and self._has_permit(waiter.party.tenant)

    def _take(self, party: FetchParty) -> None:
        self._permits.take(party.tenant, 1)
        self._held[party] += 1

    def _has_permit(self, tenant: UUID) -> bool:
        """Return whether a tenant may take a permit. One that holds none may take the last."""
        return self._permits.room(tenant) >= 1 or (self._permits.free >= 1 and not self._permits.held(tenant))

    def _count_next(self, waiter: Waiter) -> int:
        """Return how many jobs its party may start once nobody of it waits: one of them may wait."""
        return max(1, waiter.most - self._held[waiter.party])

    def _wake(self, party: FetchParty, most: int) -> None:
        """Make up for claims that got no job, unless jobs of the party still wait."""
        if any(waiter.party == party for waiter in self._waiters):
            return
        count = min(most, self._skipped[party])
        self._skipped[party] -= count
        if not self._skipped[party]:
            del self._skipped[party]
        for _ in range(count):
            self._wake_next(party.model)
