"""Counts and times of a tenant's jobs."""

import asyncio
from datetime import timedelta
from itertools import pairwise
from uuid import UUID

import pytest

from common.job_states import Priority
from common.jobs.end import end_jobs
from common.postgres.database import Database
from services.gateway.reports.stats.minutes import count_up
from services.gateway.reports.stats.reader import StatsReader
from services.gateway.reports.stats.store import Queue, StatsStore, Waiting
from tests.integration.jobs import add_tenant, claim, new_end, submit
from tests.integration.transactions import OpenTransaction

ENDED = """
INSERT INTO jobs (id, tenant_id, model, priority, status, max_attempts, timeout, initial_delay, max_delay, traceparent,
                  created_at, run_at, started_at, finished_at, generation, inference_ms, error_code, tensors)
SELECT gen_random_uuid(), $1, 'echo', 'low', $4, 3, 600, 1, 300, '', at, at, at + number * interval '1 millisecond', at,
       current_generation(), 10 * number, CASE WHEN $4 = 'failed' THEN 'x' END, ''
FROM (
  SELECT number, now() - make_interval(mins => $3) - number * interval '1 second' AS at
  FROM generate_series(1, $2::integer) number
) t
"""
END = "SELECT date_bin('1 minute', now(), 'epoch') + interval '1 minute' AS at"  # of the present minute
# A job that was due, started and finished so many minutes before a time.
JOB = """
INSERT INTO jobs (id, tenant_id, model, priority, status, max_attempts, timeout, initial_delay, max_delay, traceparent,
                  created_at, run_at, started_at, finished_at, lease_until, worker, error_code, generation, tensors)
SELECT gen_random_uuid(), $2, 'echo', 'low', $6, 3, 600, 1, 300, '', now() - interval '1 day',
       $1::timestamptz - $3::float8 * minute, $1::timestamptz - $4::float8 * minute,
       $1::timestamptz - $5::float8 * minute, CASE WHEN $6 = 'processing' THEN now() END,
       CASE WHEN $6 = 'processing' THEN 'worker' END, CASE WHEN $6 = 'failed' THEN 'x' END,
       CASE WHEN $5::float8 IS NULL THEN 0 ELSE current_generation() END, ''
FROM (SELECT interval '1 minute' AS minute) unit
"""
MINUTE = timedelta(minutes=1)
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
    assert found[ECHO] == Waiting(1, 1, oldest["created_at"])
    assert found.keys() == {ECHO, Queue("ocr", Priority.HIGH)}
    assert await store.count_running(tenant) == {ECHO: 1}
    assert sum(each.jobs + each.scheduled for each in (await store.count_waiting(tenant, 2)).values()) == 2


async def test_ended_jobs_are_measured_over_five_and_sixty_minutes(database: Database, tenant: UUID) -> None:
    store, stranger = StatsStore(database), await add_tenant(database, "stranger")
    for count, ago, status in ((100, 1, "succeeded"), (40, 10, "failed"), (9, 120, "failed")):
        await database.fetch(ENDED, tenant, count, ago, status)
    await database.fetch(ENDED, stranger, 5, 1, "succeeded")
    job = await claim(database, await submit(database, tenant))
    await end_jobs(database, [new_end(job)])
    found = await store.measure_ended(tenant)
    assert found.keys() == {(LOW, 5), (LOW, 60), (ECHO, 5), (ECHO, 60)}
    assert (found[ECHO, 5].jobs, found[ECHO, 5].failed) == (1, 0)
    short, long = found[LOW, 5], found[LOW, 60]
    assert (short.covered, short.jobs, short.failed) == (300, 100, 0)
    assert short.queue_ms == pytest.approx([50, 95])
    assert short.inference_ms == [500, 950]
    assert (long.covered, long.jobs, long.failed, long.inference_ms) == (3600, 140, 40, [500, 950])


async def test_jobs_that_took_the_result_of_another_are_counted_apart(database: Database, tenant: UUID) -> None:
    """At their submit, or after they waited for it."""
    await database.fetch(ENDED, tenant, 5, 1, "succeeded")
    await database.fetch("UPDATE jobs SET reused_from = gen_random_uuid() WHERE inference_ms <= 30")
    await database.fetch("UPDATE jobs SET finished_at = created_at + interval '1 second' WHERE inference_ms = 30")
    found = (await StatsStore(database).measure_ended(tenant))[LOW, 60]
    assert (found.jobs, found.hits, found.joins) == (5, 2, 1)


async def test_only_the_latest_ends_are_looked_at(database: Database, tenant: UUID) -> None:
    """The rates stay right: they are of the time that these jobs cover."""
    async with database.transaction() as connection:  # within which now() stands still
        await connection.execute(ENDED, tenant, 1000, 0, "succeeded")
        found = await StatsStore(OpenTransaction(connection)).measure_ended(tenant, 200)
    assert {minutes: (each.jobs, round(each.covered)) for (_, minutes), each in found.items()} == {
        5: (200, 200),
        60: (200, 200),
    }


async def test_jobs_are_counted_by_minute(database: Database, tenant: UUID) -> None:
    store, stranger = StatsStore(database), await add_tenant(database, "stranger")
    (end,) = await database.fetch(END)
    for due, started, finished, status in (
        (50.5, 40.5, 30.5, "succeeded"),
        (20.5, 10.5, 10.5, "failed"),
        (20.5, None, 5.5, "canceled"),
        (90.5, 80.5, 30.5, "failed"),
        (200.5, 190.5, 70.5, "failed"),
        (200.5, 300.5, 30.5, "canceled"),  # between attempts: it ran before it was due again
    ):
        await database.fetch(JOB, end["at"], tenant, due, started, finished, status)
        await database.fetch(JOB, end["at"], stranger, due, started, finished, status)
    await database.fetch(JOB, end["at"], tenant, 15.5, None, None, "queued")
    await database.fetch(JOB, end["at"], tenant, -15.5, None, None, "queued")
    await database.fetch(JOB, end["at"], tenant, 15.5, 2.5, None, "processing")
    changes = await store.count_by_minute(tenant, MANY)
    assert [each.at for each in changes] == [changes[0].at + number * MINUTE for number in range(61)]
    assert changes[-1].at >= end["at"] - MINUTE
    counts = count_up(changes, MANY)
    assert len(counts) == 60
    by_minute = [((end["at"] - each.at) // MINUTE - 1, each) for each in counts]
    ended = {ago: (each.ended, each.failed) for ago, each in by_minute if each.ended}
    assert ended == {30: (3, 1), 10: (1, 1), 5: (1, 0)}
    present = [(ago, each.waiting, each.running) for ago, each in by_minute]
    assert present[0][1:] == (1, 1)
    assert [after for before, after in pairwise(present) if before[1:] != after[1:]] == [
        (50, 2, 1),
        (40, 1, 2),
        (30, 0, 0),
        (20, 2, 0),
        (15, 4, 0),
        (10, 3, 0),
        (5, 2, 0),
        (2, 1, 1),
    ]


async def test_only_the_minutes_of_the_latest_ends_are_shown(database: Database, tenant: UUID) -> None:
    """A minute is whole or left out."""
    async with database.transaction() as connection:  # so that no other minute begins
        (end,) = await connection.fetch(END)
        for number in range(20):
            await connection.execute(JOB, end["at"], tenant, number + 0.5, number + 0.5, number + 0.5, "succeeded")
        changes = await StatsStore(OpenTransaction(connection)).count_by_minute(tenant, MANY, 10)
    assert [each.ended for each in count_up(changes, 10)] == 9 * [1]


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
