"""Changes of tenants' files leave connections to submits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import cast
from uuid import UUID

import pytest

from common import ids
from common.postgres.database import TRANSACTION_SECONDS, Connection
from services.gateway.files.quota import Quota
from services.gateway.files.store import MAX_CHANGES_OF_TENANT, FileStore
from services.gateway.http.problems import Problem
from tests.unit.fake_database import FakeDatabase


class FakeConnection:
    async def execute(self, *_values: object) -> None: ...

    async def fetch(self, *_values: object) -> list[dict[str, int]]:
        return [{"files": 0, "size": 0}]


class HangingDatabase(FakeDatabase):
    """Its transactions end when `go` is set."""

    def __init__(self) -> None:
        self.open, self.go = 0, asyncio.Event()

    @asynccontextmanager
    async def transaction(self, seconds: float = TRANSACTION_SECONDS) -> AsyncIterator[Connection]:
        self.open += 1
        await self.go.wait()
        yield cast("Connection", FakeConnection())


def begin(store: FileStore, tenant: UUID) -> "asyncio.Task[bool]":
    return asyncio.create_task(store.continue_upload(ids.new(), tenant, 1, 60.0))


async def let_all_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_tenant_holds_one_connection_and_all_hold_two() -> None:
    database = HangingDatabase()
    store = FileStore(database, Quota(10, 10))
    changes = [begin(store, first := ids.new()), begin(store, first)]
    await let_all_run()
    assert database.open == 1
    changes += [begin(store, ids.new()) for _ in range(3)]
    await let_all_run()
    assert database.open == 2
    database.go.set()
    assert await asyncio.gather(*changes) == [True] * 5


async def test_too_many_changes_of_a_tenant_are_refused() -> None:
    database, tenant = HangingDatabase(), ids.new()
    store = FileStore(database, Quota(10, 10))
    changes = [begin(store, tenant) for _ in range(MAX_CHANGES_OF_TENANT)]
    await let_all_run()
    with pytest.raises(Problem) as refused:
        await begin(store, tenant)
    assert refused.value.status == HTTPStatus.SERVICE_UNAVAILABLE
    database.go.set()
    await asyncio.gather(*changes)
