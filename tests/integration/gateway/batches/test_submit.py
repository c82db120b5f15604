"""A batch is committed with all its jobs or not at all. One key is one batch."""

import asyncio
from uuid import UUID

import asyncpg
import msgspec
import pytest

from common import ids
from common.job_states import Status
from common.jobs.end import end_jobs
from common.jobs.new_job import NewJob
from common.jobs.submit import submit_jobs
from common.postgres.database import Database
from services.gateway.batches.schemas import ItemProblem
from services.gateway.batches.store import (
    ITEMS_PER_STATEMENT,
    JOBS_PER_STATEMENT,
    BatchStore,
    NewBatch,
    NewItem,
    chunk_jobs,
)
from services.gateway.jobs.idempotency.store import IdempotencyStore, RequestKey
from services.gateway.jobs.store import JobFilter, JobStore
from tests.integration.jobs import TRACEPARENT, add_tenant, claim, new_end, new_job
from tests.integration.waiting import until_blocked

FINGERPRINT = bytes(32)


@pytest.fixture
def store(database: Database) -> BatchStore:
    return BatchStore(database)


def new_batch(tenant: UUID, count: int = 1, key: str | None = None) -> tuple[NewBatch, list[NewJob]]:
    batch_id = ids.new()
    jobs = [new_job(tenant, batch_id=batch_id) for _ in range(count)]
    request_key = RequestKey(key, FINGERPRINT) if key else None
    return NewBatch(batch_id, tenant, count + 1, count, TRACEPARENT, request_key, b"answer"), jobs


async def count_rows(database: Database) -> list[int]:
    """Count the batches and jobs."""
    tables = ("batches", "jobs")
    return [len(await database.fetch(f"SELECT FROM {table}")) for table in tables]


async def test_a_batch_is_committed_with_its_jobs(database: Database, store: BatchStore, tenant: UUID) -> None:
    batch, jobs = new_batch(tenant, JOBS_PER_STATEMENT + 1)
    added = await store.add(batch, jobs)
    assert added is not None
    row, times = added
    assert (row.id, row.total, row.accepted, row.finished_at) == (
        batch.id,
        JOBS_PER_STATEMENT + 2,
        JOBS_PER_STATEMENT + 1,
        None,
    )
    assert times.keys() == {job.id for job in jobs}
    assert await count_rows(database) == [1, JOBS_PER_STATEMENT + 1]
    assert await store.find(batch.id, tenant) == row
    assert await store.find(batch.id, await add_tenant(database, "stranger")) is None
    await claim(database, jobs[0].id)
    assert await store.count_jobs(batch.id) == {"queued": JOBS_PER_STATEMENT, "processing": 1}


async def test_a_failed_batch_leaves_nothing(database: Database, store: BatchStore, tenant: UUID) -> None:
    batch, jobs = new_batch(tenant, JOBS_PER_STATEMENT, key="k")
    with pytest.raises(asyncpg.CharacterNotInRepertoireError):
        await store.add(batch, [*jobs, new_job(tenant, version="a\x00b")])
    assert await count_rows(database) == [0, 0]
    assert await store.add(batch, jobs) is not None  # with the same key


async def test_a_key_is_one_batch_for_a_day(database: Database, store: BatchStore, tenant: UUID) -> None:
    first = new_batch(tenant, key="k")
    assert await store.add(*first) is not None
    assert await store.add(*new_batch(tenant, key="k")) is None
    assert await store.add(*new_batch(await add_tenant(database, "stranger"), key="k")) is not None
    assert await store.add(*new_batch(tenant)) is not None
    names = IdempotencyStore(database)
    record = (await names.find_records([(tenant, "k")]))[tenant, "k"]
    assert (record.id, record.is_batch) == (first[0].id, True)
    assert (record.fingerprint, record.answer) == (FINGERPRINT, b"answer")
    await database.fetch("UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
    assert await names.find_records([(tenant, "k")]) == {}
    second = new_batch(tenant, key="k")
    assert await store.add(*second) is not None
    assert (await names.find_records([(tenant, "k")]))[tenant, "k"].id == second[0].id


async def test_a_key_belongs_to_a_job_or_a_batch(database: Database, store: BatchStore, tenant: UUID) -> None:
    job = new_job(tenant, idempotency_key="k", fingerprint=FINGERPRINT)
    await submit_jobs(database, [job])
    batch, jobs = new_batch(tenant, key="k")
    assert await store.add(batch, jobs) is None
    assert await count_rows(database) == [0, 1]
    assert await store.add(*new_batch(tenant, key="other")) is not None
    assert await submit_jobs(database, [new_job(tenant, idempotency_key="other", fingerprint=FINGERPRINT)]) == ({}, {})


async def test_concurrent_batches_with_one_key_do_not_wait(database: Database, store: BatchStore, tenant: UUID) -> None:
    async with database.transaction() as connection:
        await connection.execute("LOCK TABLE jobs IN EXCLUSIVE MODE")
        first = asyncio.create_task(store.add(*new_batch(tenant, key="k")))
        await until_blocked(database)
        async with asyncio.timeout(10):
            assert await store.add(*new_batch(tenant, key="k")) is None
    assert await first is not None
    assert (await count_rows(database))[:2] == [1, 1]


def test_a_statement_has_a_limit_of_jobs_and_bytes(tenant: UUID) -> None:
    small = [new_job(tenant) for _ in range(2 * JOBS_PER_STATEMENT + 1)]
    assert [len(chunk) for chunk in chunk_jobs(small)] == [JOBS_PER_STATEMENT, JOBS_PER_STATEMENT, 1]
    large = [new_job(tenant, tensors=bytes(5 * 1024 * 1024)) for _ in range(3)]
    assert [len(chunk) for chunk in chunk_jobs([*large, *small[:2]])] == [1, 1, 3]
    assert list(chunk_jobs([])) == []


async def test_the_jobs_of_a_batch_are_listed(database: Database, store: BatchStore, tenant: UUID) -> None:
    (batch, jobs), other = new_batch(tenant, 3), new_batch(tenant, 2)
    await store.add(batch, jobs)
    await store.add(*other)
    mine = [job.id for job in jobs]
    await claim(database, mine[0])

    async def find(status: Status | None = None, model: str | None = None) -> list[UUID]:
        wanted = JobFilter(batch_id=batch.id, status=status, model=model)
        return [row.id for row in await JobStore(database).list_jobs(tenant, wanted, None, 10)]

    assert sorted(await find()) == sorted(mine)
    assert await find(status=Status.PROCESSING) == mine[:1]
    assert await find(model="other") == []
    assert sorted(await find(model="echo", status=Status.QUEUED)) == sorted(mine[1:])


async def test_results_are_in_the_order_submitted(database: Database, store: BatchStore, tenant: UUID) -> None:
    batch_id = ids.new()
    jobs = [new_job(tenant, batch_id=batch_id, metadata=b'{"a":1}') for _ in range(ITEMS_PER_STATEMENT)]
    jobs.reverse()  # their ids are in another order than their items
    problem = ItemProblem("urn:charonia:problem:invalid_request", "wrong", [])
    items = [NewItem(0, None, "refused", problem), *(NewItem(number, job.id) for number, job in enumerate(jobs, 1))]
    batch = NewBatch(batch_id, tenant, len(items), len(jobs), TRACEPARENT, items=items)
    await store.add(batch, jobs)
    await end_job(database, jobs[0].id, b"[1]")
    await database.fetch("DELETE FROM jobs WHERE id = $1", jobs[1].id)

    sizes = await store.measure_results(batch_id, 0, 4)
    assert sizes == [len(msgspec.json.encode(problem)), len(b'{"a":1}[1]'), 0, len(b'{"a":1}')]
    first = await store.read_results(batch_id, 0, sizes)
    assert [row.number for row in first] == [0, 1, 2, 3]
    assert [row.job.id if row.job else None for row in first] == [None, jobs[0].id, None, jobs[2].id]
    assert (first[0].custom_id, first[0].problem) == ("refused", msgspec.json.encode(problem))
    assert [row.outputs for row in first] == [None, b"[1]", None, None]
    last = await store.read_results(batch_id, len(items) - 1, [7])
    assert [row.job.id if row.job else None for row in last] == [jobs[-1].id]
    await end_job(database, jobs[2].id, b"[2]")  # after it was measured
    assert [row.number for row in await store.read_results(batch_id, 0, sizes)] == [0, 1, 2]
    assert await store.measure_results(batch_id, len(items), 4) == []
    assert await store.find_open_job(batch_id) in {job.id for job in jobs[2:]}
    await database.fetch("DELETE FROM jobs WHERE id <> $1", jobs[0].id)
    assert await store.find_open_job(batch_id) is None


async def end_job(database: Database, job_id: UUID, outputs: bytes) -> None:
    """End a job with these outputs."""
    job = await claim(database, job_id)
    await end_jobs(database, [new_end(job, outputs=outputs)])
