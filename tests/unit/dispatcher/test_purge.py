"""The loop that removes what is old enough."""

import asyncio
from datetime import UTC, datetime
from typing import cast
from uuid import UUID

import pytest

from common.errors import DatabaseUnavailable
from services.dispatcher import purge
from services.dispatcher.store import OLDEST, Bite, Mark, Store

LATER = Mark(datetime(2026, 11, 21, tzinfo=UTC), UUID(int=1))


class FakeStore:
    """Answers as planned, an exception by raising it; then it stops the loop."""

    def __init__(self, *plan: int | Exception) -> None:
        self.plan = list(plan)
        self.asked: list[tuple[float, int, Mark]] = []

    async def purge_jobs(self, age: float, limit: int, after: Mark) -> Bite:
        self.asked.append((age, limit, after))
        if not self.plan:
            raise asyncio.CancelledError
        answer = self.plan.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Bite(answer, answer, LATER)

    async def purge_keys(self, _limit: int) -> int:
        return 0


async def run(store: FakeStore) -> None:
    with pytest.raises(asyncio.CancelledError):
        await purge.purge(cast("Store", store), 60.0)


async def test_it_takes_small_bites_of_what_is_older_than_the_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "SHARE", 1)
    store = FakeStore(purge.BATCH, purge.BATCH)
    await run(store)
    assert store.asked == [(60.0, purge.BATCH, OLDEST), *[(60.0, purge.BATCH, LATER)] * 2]


async def test_it_goes_on_after_a_rest_and_after_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "REST_SECONDS", 0.0)
    store = FakeStore(0, DatabaseUnavailable(), 3)
    await run(store)
    assert len(store.asked) == 4
