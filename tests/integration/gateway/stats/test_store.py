"""Counts and times of a tenant's jobs."""

import asyncio
from uuid import UUID

import pytest

from common.jobs import Priority
from common.postgres.database import Database
from services.gateway.stats.reader import StatsReader
from services.gateway.stats.store import Queue, StatsStore, Waiting
from tests.integration.jobs import add_tenant, claim, new_end, submit
from tests.integration.stores import Stores

ENDED = """
INSERT INTO jobs (id, tenant_id, model, priority, status, max_attempts, timeout, initial_delay, max_delay, traceparent,
                  created_at, run_at, started_at, finished_at, inference_ms, error_code)
SELECT gen_random_uuid(), $1, 'echo', 'low', $4, 3, 600, 1, 300, '', at, at, at + number * interval '1 millisecond', at,
       10 * number, CASE WHEN $4 = 'failed' THEN 'x' END
FROM (
  SELECT number, now() - make_interval(mins => $3) - number * interval '1 second' AS at
  FROM generate_series(1, $2::integer) number
) t
"""
ECHO = Queue("echo", Priority.NORMAL)
LOW = Queue("echo", Priority.LOW)
MANY = 10_000


async def test_waiting_and_running_jobs_are_counted_by_model_and_priority(database: Database, tenant: UUID) -> None:
    store, stranger = StatsStore(database), await add_tenant(database, "stranger")
    assert (await store.count_waiting(tenant, MANY), await store.count_running(tenant)) == ({}, {})
    jobs = [await submit(database, tenant) for _ in range(3)]
    await submit(database, tenant, model="ocr", priority=Priority.HIGH)
    await submit(database, stranger)
    await claim(database, jobs[0])
    await database.fetch("UPDATE jobs SET run_at = now() + interval '1 day' WHERE id = $1", jobs[1])
    (oldest,) = await database.fetch("SELECT created_at FROM jobs WHERE id = $1", jobs[2])
    found = await store.count_waiting(tenant, MANY)
    assert found[ECHO] == Waiting(2, 1, oldest["created_at"])
    assert found.keys() == {ECHO, Queue("ocr", Priority.HIGH)}
    assert await store.count_running(tenant) == {ECHO: 1}
    assert sum(each.jobs for each in (await store.count_waiting(tenant, 2)).values()) == 2


async def test_ended_jobs_are_measured_over_five_and_sixty_minutes(database: Database, tenant: UUID) -> None:
    store, stranger = StatsStore(database), await add_tenant(database, "stranger")
    for count, ago, status in ((100, 1, "succeeded"), (40, 10, "failed"), (9, 120, "failed")):
        await database.fetch(ENDED, tenant, count, ago, status)
    await database.fetch(ENDED, stranger, 5, 1, "succeeded")
    job = await claim(database, await submit(database, tenant))
    await Stores(database).results.end_jobs([new_end(job)])
    found = await store.measure_ended(tenant)
    assert found.keys() == {(LOW, 5), (LOW, 60), (ECHO, 5), (ECHO, 60)}
    assert (found[ECHO, 5].jobs, found[ECHO, 5].failed) == (1, 0)
    short, long = found[LOW, 5], found[LOW, 60]
    assert (short.covered, short.jobs, short.failed) == (300, 100, 0)
    assert short.queue_ms == pytest.approx([50, 95])
    assert short.inference_ms == [500, 950]
    assert (long.covered, long.jobs, long.failed, long.inference_ms) == (3600, 140, 40, [500, 950])


async def test_only_the_latest_ends_are_looked_at(database: Database, tenant: UUID) -> None:
    """The rates stay right: they are of the time that these jobs cover."""
    await database.fetch(ENDED, tenant, 1000, 0, "succeeded")
    found = await StatsStore(database).measure_ended(tenant, 200)
    assert {minutes: (each.jobs, round(each.covered)) for (_, minutes), each in found.items()} == {
        5: (200, 200),
        60: (200, 200),
    }


async def test_concurrent_readers_share_a_look(database: Database, tenant: UUID) -> None:
    looks = []

    class CountingStore(StatsStore):
        async def count_running(self, tenant_id: UUID) -> dict[Queue, int]:
            looks.append(tenant_id)
            return await super().count_running(tenant_id)

    now = [0.0]
    reader = StatsReader(CountingStore(database), lambda: now[0])
    await submit(database, tenant)
    found = await asyncio.gather(*(reader.read(tenant) for _ in range(50)))
    assert {each.waiting[ECHO].jobs for each in found} == {1}
    await submit(database, tenant)
    now[0] = 0.9
    assert (await reader.read(tenant)).waiting[ECHO].jobs == 1
    now[0] = 1.1
    assert (await reader.read(tenant)).waiting[ECHO].jobs == 2
    assert len(looks) == 2
