"""A few users at a time, and fewer of one tenant."""

import asyncio
from collections import Counter
from uuid import UUID

import pytest

from common import ids
from common.errors import Retry
from common.fair_semaphore import FairSemaphore

TOTAL, PER_TENANT, MAX_USERS = 8, 3, 5


async def test_no_tenant_takes_all_permits() -> None:
    semaphore, running, go = FairSemaphore[UUID](TOTAL, each=PER_TENANT), Counter[UUID](), asyncio.Event()
    tenants = [ids.new() for _ in range(3)]

    async def run(tenant: UUID) -> None:
        async with semaphore.acquire(tenant):
            running[tenant] += 1
            await go.wait()
            running[tenant] -= 1

    runs = [asyncio.create_task(run(tenant)) for tenant in tenants for _ in range(20)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert [running[tenant] for tenant in tenants] == [PER_TENANT, PER_TENANT, TOTAL - 2 * PER_TENANT]
    runs[0].cancel()
    go.set()
    await asyncio.wait(runs)
    assert semaphore._parties == {}


async def test_users_of_a_tenant_come_in_their_order() -> None:
    semaphore, order, tenant = FairSemaphore[UUID](TOTAL, each=1), list[int](), ids.new()

    async def run(number: int) -> None:
        async with semaphore.acquire(tenant):
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*(run(number) for number in range(5)))
    assert order == [0, 1, 2, 3, 4]


async def test_too_many_users_of_a_tenant_are_refused() -> None:
    semaphore, done, tenant = (
        FairSemaphore[UUID](TOTAL, each=PER_TENANT, most_users=MAX_USERS, refuse=lambda: Retry("too many")),
        asyncio.Event(),
        ids.new(),
    )

    async def run() -> None:
        async with semaphore.acquire(tenant):
            await done.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(MAX_USERS):
            group.create_task(run())
        await asyncio.sleep(0)
        with pytest.raises(Retry, match="too many"):
            async with semaphore.acquire(tenant):
                raise AssertionError
        async with semaphore.acquire(ids.new()):
            done.set()
