"""The limit of the bytes that jobs add to a tenant's files."""

import asyncio
from collections.abc import Collection
from uuid import UUID

import pytest

from common import ids
from services.gateway.http.problems import Problem
from services.gateway.jobs.inputs.store import InputStore
from services.gateway.jobs.inputs.stored_limit import MAX_TENANTS, StoredLimit
from services.gateway.models.freshness import FRESH_SECONDS
from tests.unit.clock import Clock

TENANT, OTHER = ids.new(), ids.new()
MOST = 1000


class FakeStore(InputStore):
    def __init__(self) -> None:
        self.sizes: dict[UUID, int] = {}
        self.measured: list[set[UUID]] = []

    async def measure(self, tenants: Collection[UUID]) -> dict[UUID, int]:
        self.measured.append(set(tenants))
        return {tenant: size for tenant, size in self.sizes.items() if tenant in tenants}


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def limit(store: FakeStore, clock: Clock) -> StoredLimit:
    return StoredLimit(store, MOST, clock)


async def refuse(limit: StoredLimit, size: int) -> int:
    with pytest.raises(Problem) as caught:
        await limit.admit(TENANT, size)
    assert ("Retry-After" in caught.value.headers) == (caught.value.status == 429)
    return caught.value.status


async def test_a_tenant_has_what_is_stored_and_what_it_adds(limit: StoredLimit, store: FakeStore) -> None:
    store.sizes[TENANT] = 400
    await limit.admit(TENANT, 500)
    assert await refuse(limit, 101) == 429
    await limit.admit(TENANT, 100)
    assert await refuse(limit, 1) == 429
    await limit.admit(OTHER, MOST)
    assert store.measured == [{TENANT}, {OTHER}]


async def test_what_never_fits_is_not_counted(limit: StoredLimit, store: FakeStore) -> None:
    assert await refuse(limit, MOST + 1) == 413
    assert store.measured == []


async def test_files_are_counted_again_after_a_while(limit: StoredLimit, store: FakeStore, clock: Clock) -> None:
    await limit.admit(TENANT, MOST)
    clock.now += FRESH_SECONDS - 0.01
    assert await refuse(limit, 1) == 429
    clock.now += 0.01
    await limit.admit(TENANT, MOST)
    store.sizes[TENANT] = MOST
    clock.now += FRESH_SECONDS
    assert await refuse(limit, 1) == 429


async def test_requests_at_a_time_share_a_count_and_the_limit(limit: StoredLimit, store: FakeStore) -> None:
    outcomes = await asyncio.gather(*(limit.admit(TENANT, 300) for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(outcome, Problem) for outcome in outcomes) == 2
    assert store.measured == [{TENANT}]


async def test_old_tenants_are_forgotten(limit: StoredLimit, clock: Clock) -> None:
    for _ in range(MAX_TENANTS + 1):
        await limit.admit(ids.new(), 1)
    clock.now += FRESH_SECONDS
    await limit.admit(TENANT, 1)
    assert len(limit._levels) == 1
