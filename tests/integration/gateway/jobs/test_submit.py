"""Jobs are committed with their messages, many at a time. A bad job does not fail the others."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from common.job_states import Status
from common.jobs.new_job import NewJob
from common.jobs.submit import JobTimes, submit_jobs
from common.postgres.batcher import Batcher
from common.postgres.database import Database
from services.gateway.http.limits.response_limits import LARGE
from services.gateway.jobs.idempotency.store import IdempotencyStore
from services.gateway.jobs.store import JobStore
from tests.integration.jobs import add_tenant, look, new_job


async def test_a_job_for_the_past_is_due_now(database: Database, tenant: UUID) -> None:
    now = new_job(tenant)
    past = new_job(tenant, run_at=datetime(2000, 1, 1, tzinfo=UTC))
    later = new_job(tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    times, _ = await submit_jobs(database, [now, past, later])
    assert times[now.id].run_at == times[past.id].run_at == times[now.id].created_at
    assert times[later.id].run_at == later.run_at


async def test_a_job_remembers_what_it_was_translated_from(database: Database, tenant: UUID) -> None:
    small, large = b'{"endpoint":"/v1/x","body":{}}', b'"%b"' % (b"x" * LARGE)
    jobs = [new_job(tenant, request=request) for request in (small, large, None)]
    await submit_jobs(database, jobs)
    store = JobStore(database)
    found = [await store.find_job(job.id, tenant) for job in jobs]
    assert [each and (each.request, each.request_size) for each in found] == [
        (small, len(small)),
        (None, len(large)),
        (None, None),
    ]
    assert jobs[1].input_bytes == jobs[2].input_bytes + len(large)


async def test_only_a_scheduled_job_waits_for_its_time(database: Database, tenant: UUID) -> None:
    now, later = new_job(tenant), new_job(tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    await submit_jobs(database, [now, later])
    claimable, waiting = await look(database, now.id), await look(database, later.id)
    assert claimable.status is waiting.status is Status.QUEUED
    assert (claimable.scheduled_at, waiting.scheduled_at) == (None, later.run_at)


async def test_expiry_counts_from_run_at(database: Database, tenant: UUID) -> None:
    now = new_job(tenant, expires_in=60.0)
    later = new_job(tenant, run_at=datetime.now(UTC) + timedelta(hours=1), expires_in=60.0)
    for times in (await submit_jobs(database, [now, later])).added.values():
        assert times.expires_at == times.run_at + timedelta(seconds=60)


async def test_payloads_are_stored_byte_for_byte(database: Database, tenant: UUID) -> None:
    odd = b'{"b":1,"a":"\\u0000","b":2}'
    job = new_job(
        tenant,
        tensors=b"\x00\xff",
        parameters=odd,
        metadata=odd,
        callback_url="https://a",
        callback_events=["job.failed"],
    )
    await submit_jobs(database, [job])
    (row,) = await database.fetch("SELECT * FROM jobs WHERE id = $1", job.id)
    assert (row["tensors"], row["parameters"], row["metadata"]) == (b"\x00\xff", odd, odd)
    assert (row["callback_url"], row["callback_events"]) == ("https://a", ["job.failed"])


async def test_a_statement_adds_all_jobs_or_none(database: Database, tenant: UUID) -> None:
    good = new_job(tenant)
    with pytest.raises(asyncpg.PostgresError):
        await submit_jobs(database, [good, new_job(tenant, version="a\x00b")])
    assert await database.fetch("SELECT id FROM jobs") == []


async def test_a_bad_job_does_not_fail_the_others_in_its_statement(database: Database, tenant: UUID) -> None:
    async def add(jobs: list[NewJob]) -> list[JobTimes]:
        sizes.append(len(jobs))
        times, _ = await submit_jobs(database, jobs)
        return [times[job.id] for job in jobs]

    sizes: list[int] = []
    batcher = Batcher(add, name="test")
    jobs = [new_job(tenant) for _ in range(10)]
    jobs[3] = new_job(tenant, version="a\x00b")
    jobs[5] = new_job(tenant, max_delay=0.5)
    outcomes = await asyncio.gather(*map(batcher.submit, jobs), return_exceptions=True)
    refused = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Exception)]
    assert refused == [3, 5]
    assert isinstance(outcomes[3], asyncpg.CharacterNotInRepertoireError)
    assert isinstance(outcomes[5], asyncpg.CheckViolationError)
    assert max(sizes) > 1


async def test_of_jobs_with_one_key_the_first_is_added(database: Database, tenant: UUID) -> None:
    jobs = [new_job(tenant, idempotency_key="k", fingerprint=bytes(32)) for _ in range(3)]
    times, _ = await submit_jobs(database, [*jobs, other := new_job(tenant)])
    assert times.keys() == {min(job.id for job in jobs), other.id}
    assert await submit_jobs(database, [new_job(tenant, idempotency_key="k", fingerprint=bytes(32))]) == ({}, {})
    found = await IdempotencyStore(database).find_records([(tenant, "k"), (tenant, "unknown")])
    (named,) = found.values()
    assert (named.id, named.is_batch) == (min(job.id for job in jobs), False)
    assert (named.created_at, named.run_at, named.expires_at) == times[named.id]


async def test_keys_are_per_tenant_and_free_after_a_day(database: Database, tenant: UUID) -> None:
    first = new_job(tenant, idempotency_key="k", fingerprint=bytes(32))
    await submit_jobs(database, [first])
    stranger = await add_tenant(database, "stranger")
    assert (await submit_jobs(database, [new_job(stranger, idempotency_key="k", fingerprint=bytes(32))])).added
    await database.fetch("UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
    names = IdempotencyStore(database)
    assert await names.find_records([(tenant, "k")]) == {}
    second = new_job(tenant, idempotency_key="k", fingerprint=bytes(31) + b"1")
    assert (await submit_jobs(database, [second])).added.keys() == {second.id}
    assert (await names.find_records([(tenant, "k")]))[tenant, "k"].id == second.id
