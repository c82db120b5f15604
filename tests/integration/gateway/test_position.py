"""Where a job is in its queue, as the turns go that tenants take."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common import ids
from common.database import Database
from common.jobs import Priority
from services.dispatcher.turns import Turns
from services.gateway import store as module
from services.gateway.store import Store
from tests.integration.jobs import add_tenant, claim, submit, take

FLOOD = """
WITH flooding AS (
  INSERT INTO tenants (id, name, webhook_secret)
  SELECT gen_random_uuid(), 'flood ' || number, '' FROM generate_series(1, $1) number
  RETURNING id
)
INSERT INTO jobs (id, tenant_id, model, priority, status, max_attempts, timeout, initial_delay, max_delay, traceparent,
                  ring_at)
SELECT overlay(gen_random_uuid()::text placing '00' from 1)::uuid, id, 'echo', 'normal', 'queued', 3, 600, 1, 300, '',
       now() + interval '1 minute'
FROM flooding, generate_series(1, $2)
"""


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def find(store: Store, job: UUID, tenant: UUID) -> int | None:
    found = await store.find_job(job, tenant)
    assert found is not None
    return found.queue_position


async def bring(database: Database, tenant: UUID, count: int, **options: object) -> list[UUID]:
    """So many jobs, the oldest first."""
    return [await submit(database, tenant, **options) for _ in range(count)]


async def test_older_jobs_of_the_tenants_own_come_before_one(database: Database, store: Store, tenant: UUID) -> None:
    first = await submit(database, tenant)
    await submit(database, tenant, model="other")
    await submit(database, tenant, priority=Priority.LOW)
    await submit(database, tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    jobs = sorted([first, *await bring(database, tenant, 2)])
    assert [await find(store, job, tenant) for job in jobs] == [1, 2, 3]
    await claim(database, jobs[0])
    assert [await find(store, job, tenant) for job in jobs] == [None, 1, 2]


async def test_all_of_the_classes_above_come_before_one(database: Database, store: Store, tenant: UUID) -> None:
    await bring(database, tenant, 2, priority=Priority.HIGH)
    await bring(database, await add_tenant(store, "stranger"), 3, priority=Priority.HIGH)
    (normal,), (low,) = await bring(database, tenant, 1), await bring(database, tenant, 1, priority=Priority.LOW)
    assert [await find(store, job, tenant) for job in (normal, low)] == [6, 7]


async def test_of_other_tenants_only_those_whose_turn_comes_first(
    database: Database, store: Store, tenant: UUID
) -> None:
    """However many they have, and how old those are; so no job is claimed later than it was told."""
    strangers = [await add_tenant(store, f"stranger {number}") for number in range(2)]
    for stranger, count in zip(strangers, (20, 2), strict=True):
        await bring(database, stranger, count)
    mine = sorted(await bring(database, tenant, 4))
    told = [await find(store, job, tenant) for job in mine]
    assert told == [3, 6, 8, 10]
    order, turns = [], Turns()
    for _ in range(26):
        (job,) = await take(database, last=turns.next(Priority.NORMAL), running=turns.running)
        turns.begin(job.row.tenant_id, job.row.id, Priority.NORMAL)
        order.append(job.row.id)
    claimed = [order.index(job) + 1 for job in mine]
    assert all(position - 2 <= at <= position for at, position in zip(claimed, (3, 6, 8, 10), strict=True))


@pytest.mark.parametrize(
    ("tenants", "jobs", "position"),
    [(1, 10_010, 2), (30, 10, 31), (150, 1, 101)],
    ids=["a long queue", "several", "many tenants"],
)
async def test_the_count_is_bounded(
    database: Database,
    store: Store,
    tenant: UUID,
    monkeypatch: pytest.MonkeyPatch,
    tenants: int,
    jobs: int,
    position: int,
) -> None:
    await database.fetch(FLOOD, tenants, jobs)
    job = await submit(database, tenant, id=UUID(int=ids.new().int | 0xFFFF << 80))
    assert await find(store, job, tenant) in (position, position + 1)
    monkeypatch.setattr(module, "FARTHEST", 20)
    assert await find(store, job, tenant) == min(position, 21)
