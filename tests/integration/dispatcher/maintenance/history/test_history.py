"""History goes a generation at a time: all of it, in time, and nothing else."""

import asyncio
from typing import Any

import pytest

from common import ids
from common.errors import DatabaseUnavailable
from common.job_states import Status
from common.jobs.end import end_jobs
from services.dispatcher.maintenance.files.store import UnneededFileStore
from services.dispatcher.maintenance.history import history
from services.dispatcher.maintenance.history.store import HistoryStore
from services.dispatcher.maintenance.retention import own_retention
from services.dispatcher.maintenance.retention.store import RetentionStore
from services.dispatcher.maintenance.usage.store import roll_up
from services.gateway.batches.store import BatchStore, NewBatch
from services.gateway.jobs.actions.erasure import Eraser
from tests.integration.dispatcher.maintenance.history.past import (
    COUNTED,
    PASS_TIME,
    RETENTION,
    SIXTH,
    Past,
    make_counts,
)
from tests.integration.jobs import TRACEPARENT, claim, new_end, new_job, submit
from tests.integration.waiting import until, until_blocked

FILE = """
INSERT INTO files (id, tenant_id, status, content_type, size, sha256, kept, job_id, expires_at)
VALUES ($1, $2, 'ready', 'text/plain', 7, '', 60, $3, CASE WHEN $3::uuid IS NULL THEN now() + '1h' ELSE 'infinity' END)
"""


async def test_all_rows_of_an_old_generation_go_and_all_newer_ones_stay(past: Past) -> None:
    await past.add()
    assert await past.count() == make_counts(1)
    await past.begin()
    newer = await past.add()
    live = await submit(past.database, past.tenant)
    await past.pass_time(RETENTION - 1)
    assert await past.sweep() == 0
    assert await past.count() == make_counts(2, jobs=3)
    await past.pass_time(1)
    assert await past.sweep() == 1
    assert await past.count() == make_counts(1, jobs=2)
    assert await past.has(newer.id)
    assert await past.has(live)
    assert await past.sweep() == 0


@pytest.mark.parametrize("step", [0, 1, 2, 3])
async def test_a_row_stays_for_the_retention_and_a_sixth_longer_at_most(past: Past, step: int) -> None:
    """Four looks to a sixth, whenever in a generation the job ended."""
    pause = SIXTH / 4
    for _ in range(step):
        await past.pass_time(pause)
        await past.sweep()
    job = await past.add()
    age = 0.0
    while await past.has(job.id):
        await past.pass_time(pause)
        age += pause
        await past.sweep()
    assert RETENTION <= age <= RETENTION + SIXTH
    assert await past.count() == make_counts(0)


async def test_the_next_generation_is_always_empty_when_its_time_comes(past: Past) -> None:
    jobs, seen = [], []
    for _ in range(20):
        jobs.append(await past.add_silent())
        before = await past.find_current()
        await past.pass_time(SIXTH)
        await past.sweep()
        seen.append(await past.find_current())
        assert seen[-1] == before % 8 + 1
        assert await past.is_next_empty()
    assert set(seen) == set(range(1, 9))
    assert [await past.has(job) for job in jobs] == [False] * 14 + [True] * 6


async def test_without_an_empty_generation_the_current_one_goes_on(past: Past) -> None:
    for number in range(2, 9):
        await past.add_silent()
        assert await past.begin() == number
    for _ in range(3):
        await past.pass_time(SIXTH)
        assert await past.store.begin_next(SIXTH) is None
        await past.add_silent()
    assert await past.find_current() == 8
    assert (await past.count())["jobs"] == 10
    await past.pass_time(RETENTION)
    assert await past.sweep() == 7
    assert await past.store.begin_next(SIXTH) == 1
    assert (await past.count())["jobs"] == 3


async def test_a_generation_stays_until_its_usage_is_counted(past: Past) -> None:
    first = await past.add()
    await past.begin()
    second = await past.add()
    await past.store.begin_next(0)
    await past.database.fetch(PASS_TIME, RETENTION)
    assert await past.sweep() == 1
    assert [await past.has(job.id) for job in (first, second)] == [False, True]

    async def is_emptied() -> bool:
        await roll_up(past.database, 100)
        return await past.sweep() == 1

    await until(is_emptied, "the second generation is counted and emptied")
    assert not await past.has(second.id)


async def test_the_files_of_jobs_that_are_gone_are_released_and_no_others(
    past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "BATCH", 2)
    monkeypatch.setattr(history, "PAUSE_SECONDS", 0.0)
    gone, files = [await past.add_silent() for _ in range(4)], []
    await past.begin()
    for job in (*gone, await past.add_silent(), None, await submit(past.database, past.tenant), *gone):
        files.append(ids.new())
        await past.database.fetch(FILE, files[-1], past.tenant, job)
    await past.pass_time(RETENTION - SIXTH)
    assert await past.sweep() == 0
    sweeper = UnneededFileStore(past.database)
    assert await sweeper.claim(20, 60) == []
    await past.pass_time(SIXTH)
    assert await past.sweep() == 1
    assert {file.id for file in await sweeper.claim(20, 60)} == {*files[:4], *files[-4:]}


async def test_a_batch_and_its_items_go_after_its_jobs(past: Past) -> None:
    batch = NewBatch(ids.new(), past.tenant, 2, 2, TRACEPARENT)
    jobs = [new_job(past.tenant, batch_id=batch.id, model="silent") for _ in range(2)]
    store, retention = BatchStore(past.database), RetentionStore(past.database)
    assert await store.add(batch, jobs)
    for job in jobs:
        await end_jobs(past.database, [new_end(await claim(past.database, job.id))])
        await past.begin()
    await past.database.fetch("UPDATE batches SET finished_at = now() - make_interval(secs => $1)", RETENTION)
    for left, seconds in ((1, RETENTION - SIXTH), (0, SIXTH)):
        await past.pass_time(seconds)
        assert await past.sweep() == 1
        assert (await past.count())["jobs"] == left
        assert await retention.remove_batches(RETENTION, 100, 1000) == 1 - left
    assert await store.find(batch.id, past.tenant) is None
    assert await past.database.fetch("SELECT FROM batch_items") == []


async def test_a_reader_delays_the_emptying_and_nobody_else(past: Past) -> None:
    job = await past.add_silent()
    await past.begin()
    await past.pass_time(RETENTION)
    async with past.database.transaction() as reader:
        await reader.execute("SELECT FROM jobs WHERE id = $1", job)
        emptying = asyncio.create_task(past.sweep())
        await until_blocked(past.database)
        assert await past.has(job)  # it waits until the emptying gives up
        assert await emptying == 0
        assert await past.has(job)
    assert await past.sweep() == 1
    assert not await past.has(job)


@pytest.mark.parametrize("whose", ["job's", "tenant's"])
async def test_an_own_retention_removes_all_rows_from_any_generation(past: Past, whose: str) -> None:
    retention = RetentionStore(past.database)
    if whose == "tenant's":
        await past.database.fetch("UPDATE tenants SET retention = 60")
    options: dict[str, Any] = {"retain": 60.0} if whose == "job's" else {}
    for _ in range(2):
        await past.add(**options)
        await past.begin()
    await past.database.fetch(
        "UPDATE jobs SET finished_at = finished_at - interval '61 s', created_at = created_at - interval '61 s'"
    )
    recent = await past.add(**options)
    await past.database.fetch("UPDATE usage_progress SET counted_before = '0'")
    assert await own_retention.remove_retained(retention) == 0
    await past.database.fetch(COUNTED)
    assert await own_retention.remove_retained(retention) == 2
    assert await past.count() == make_counts(1)
    assert await past.has(recent.id)


async def test_an_erasure_reaches_every_generation(past: Past) -> None:
    """The rows of one job are in three generations."""
    job = await past.add(Status.FAILED)
    await past.begin()
    for table in ("events", "attempts"):
        await past.database.fetch(f"UPDATE {table} SET generation = current_generation()")  # noqa: S608 -- constants
    await past.begin()
    await past.database.fetch("UPDATE deliveries SET generation = current_generation()")
    other = await past.add()
    assert await Eraser(past.database).erase(past.tenant, job.id)
    assert await past.count() == make_counts(1, jobs=2, job_attempts=2)
    assert await past.has(other.id)
    (erased,) = await past.database.fetch("SELECT tensors, error_message FROM jobs WHERE erased_at IS NOT NULL")
    assert tuple(erased) == (b"", None)


async def test_files_are_released_after_an_outage_too(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have hidden that a generation was emptied."""
    passes: list[str] = []
    second_release = asyncio.Event()

    async def sweep(_store: HistoryStore, _retention: float) -> int:
        passes.append("sweep")
        if len(passes) == 4:
            raise DatabaseUnavailable("gone")
        return 0

    async def release(_store: HistoryStore) -> None:
        if "release" in passes:
            second_release.set()
        passes.append("release")

    monkeypatch.setattr(history, "sweep", sweep)
    monkeypatch.setattr(history, "release_files", release)
    running = asyncio.create_task(history.run(past.store, 0.001))
    async with asyncio.timeout(20):
        await second_release.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert passes[:6] == ["sweep", "release", "sweep", "sweep", "sweep", "release"]
