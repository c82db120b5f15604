"""The position of a job in its queue. Tenants are served in turn."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common import ids
from common.job_states import Priority
from common.jobs.requeue import requeue_jobs
from common.postgres.database import Database
from services.dispatcher.models.tenant_load import TenantLoad
from services.gateway.jobs import store as module
from services.gateway.jobs.store import JobStore
from tests.integration.jobs import add_tenant, claim, make_claimable, new_requeue, submit, take

FLOOD = """
WITH flooding AS (
  INSERT INTO tenants (id, name, webhook_secret)
  SELECT gen_random_uuid(), 'flood ' || number, '' FROM generate_series(1, $1) number
  RETURNING id
)
INSERT INTO jobs (id, tenant_id, model, priority, status, max_attempts, timeout, initial_delay, max_delay, traceparent,
                  tensors)
SELECT overlay(gen_random_uuid()::text placing '00' from 1)::uuid, id, 'echo', 'normal', 'queued', 3, 600, 1, 300, '',
       ''
FROM flooding, generate_series(1, $2)
"""


@pytest.fixture
def store(database: Database) -> JobStore:
    return JobStore(database)


async def find(store: JobStore, job: UUID, tenant: UUID) -> int | None:
    found = await store.find_job(job, tenant)
    assert found is not None
    return found.queue_position


async def bring(database: Database, tenant: UUID, count: int, **options: object) -> list[UUID]:
    """Submit jobs, and return them, oldest first."""
    return [await submit(database, tenant, **options) for _ in range(count)]


async def test_older_jobs_of_the_tenant_come_first(database: Database, store: JobStore, tenant: UUID) -> None:
    first = await submit(database, tenant)
    await submit(database, tenant, model="other")
    await submit(database, tenant, priority=Priority.LOW)
    await submit(database, tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    jobs = sorted([first, *await bring(database, tenant, 2)])
    assert [await find(store, job, tenant) for job in jobs] == [1, 2, 3]
    await claim(database, jobs[0])
    assert [await find(store, job, tenant) for job in jobs] == [None, 1, 2]


async def test_a_job_that_waits_for_its_time_has_no_position(database: Database, store: JobStore, tenant: UUID) -> None:
    """Neither one that backs off, nor a scheduled one, is in the queue."""
    older, newer = sorted(ids.new() for _ in range(2))
    scheduled = await submit(database, tenant, id=older, run_at=datetime.now(UTC) + timedelta(hours=1))
    failed = await submit(database, tenant, id=newer)
    backs_off = new_requeue(await claim(database, failed), delay=3600.0)
    await requeue_jobs(database, [backs_off])
    assert [await find(store, job, tenant) for job in (scheduled, failed)] == [None, None]
    await make_claimable(database)
    assert [await find(store, job, tenant) for job in (scheduled, failed)] == [1, 2]


async def test_all_jobs_of_higher_priorities_come_first(database: Database, store: JobStore, tenant: UUID) -> None:
    await bring(database, tenant, 2, priority=Priority.HIGH)
    await bring(database, await add_tenant(database, "stranger"), 3, priority=Priority.HIGH)
    (normal,), (low,) = await bring(database, tenant, 1), await bring(database, tenant, 1, priority=Priority.LOW)
    assert [await find(store, job, tenant) for job in (normal, low)] == [6, 7]


async def test_other_tenants_jobs_come_first_only_in_their_turn(
    database: Database, store: JobStore, tenant: UUID
) -> None:
    """However many and old they are. No job is claimed later than its position says."""
    strangers = [await add_tenant(database, f"stranger {number}") for number in range(2)]
    for stranger, count in zip(strangers, (20, 2), strict=True):
        await bring(database, stranger, count)
    mine = sorted(await bring(database, tenant, 4))
    told = [await find(store, job, tenant) for job in mine]
    assert told == [3, 6, 8, 10]
    order, turns = [], TenantLoad()
    for _ in range(26):
        (job,) = await take(database, last_tenant=turns.last_tenant[Priority.NORMAL], running=turns.running)
        turns.note_start(job.tenant_id, Priority.NORMAL)
        order.append(job.id)
    claimed = [order.index(job) + 1 for job in mine]
    assert all(position - 2 <= at <= position for at, position in zip(claimed, (3, 6, 8, 10), strict=True))


@pytest.mark.parametrize(
    ("tenants", "jobs", "position"),
    [(1, 10_010, 2), (30, 10, 31), (150, 1, 101)],
    ids=["a long queue", "several", "many tenants"],
)
async def test_the_position_is_bounded(
    database: Database,
    store: JobStore,
    tenant: UUID,
    monkeypatch: pytest.MonkeyPatch,
    tenants: int,
    jobs: int,
    position: int,
) -> None:
    await database.fetch(FLOOD, tenants, jobs)
    job = await submit(database, tenant, id=UUID(int=ids.new().int | 0xFFFF << 80))
    assert await find(store, job, tenant) in (position, position + 1)
    monkeypatch.setattr(module, "MAX_POSITION", 20)
    assert await find(store, job, tenant) == min(position, 21)
