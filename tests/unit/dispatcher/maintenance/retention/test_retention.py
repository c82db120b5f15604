"""The retention loop works in batches and survives outages."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from common.errors import DatabaseUnavailable
from common.jobs.remove import OLDEST, EndedJobCursor
from services.dispatcher.maintenance.retention import retention
from services.dispatcher.maintenance.retention.store import RetentionStore
from tests.unit.fake_database import FakeDatabase

LATER = EndedJobCursor(datetime(2026, 11, 21, tzinfo=UTC), UUID(int=1))


class FakeStore(FakeDatabase):
    """Returns or raises what was planned, then stops the loop."""

    def __init__(self, *plan: int | Exception) -> None:
        self.plan = list(plan)
        self.calls: list[tuple[float, int, EndedJobCursor]] = []

    async def remove_old_jobs(self, age: float, limit: int, **after: Any) -> list[dict[str, Any]]:
        self.calls.append((age, limit, EndedJobCursor(**after)))
        if not self.plan:
            raise asyncio.CancelledError
        planned = self.plan.pop(0)
        if isinstance(planned, Exception):
            raise planned
        return [{"examined": planned, "removed": planned, **LATER._asdict()}]


class EmptyStore(RetentionStore):
    """Has nothing but jobs to remove."""

    async def remove_keys(self, _limit: int) -> int:
        return 0

    async def remove_expired_api_keys(self, _limit: int) -> int:
        return 0

    async def remove_audit_log(self, _age: float, _limit: int) -> int:
        return 0

    async def remove_batches(self, _age: float, _limit: int, _items: int) -> int:
        return 0


async def run(store: FakeStore) -> None:
    with pytest.raises(asyncio.CancelledError):
        await retention.run(store, EmptyStore(store), 60.0, 60.0)


async def test_it_removes_old_jobs_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SHARE", 1)
    store = FakeStore(retention.BATCH, retention.BATCH)
    await run(store)
    assert store.calls == [(60.0, retention.BATCH, OLDEST), *[(60.0, retention.BATCH, LATER)] * 2]


async def test_it_continues_after_a_rest_and_after_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "REST_SECONDS", 0.0)
    store = FakeStore(0, DatabaseUnavailable(), 3)
    await run(store)
    assert len(store.calls) == 4
