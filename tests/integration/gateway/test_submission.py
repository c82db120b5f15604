"""Jobs are committed with their doorbells, many at a time, and a bad one alone is refused."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from common import ids
from common.batching import Batcher
from common.database import Database
from common.jobs import Status
from services.gateway.auth import hash_key
from services.gateway.idempotency_store import IdempotencyStore
from services.gateway.key_store import KeyStore
from services.gateway.store import NewJob, Store, Times
from tests.integration.jobs import add_tenant, look, new_job


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def list_doorbells(database: Database) -> set[UUID]:
    return {record["id"] for record in await database.fetch("SELECT id FROM outbox")}


async def test_a_batch_is_committed_with_a_doorbell_for_each_job_that_may_run(
    database: Database, store: Store, tenant: UUID
) -> None:
    now = new_job(tenant)
    past = new_job(tenant, run_at=datetime(2000, 1, 1, tzinfo=UTC))
    later = new_job(tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    times = await store.submit_jobs([now, past, later])
    assert await list_doorbells(database) == {now.message.id, past.message.id}
    assert times[now.id].run_at == times[past.id].run_at == times[now.id].created_at
    assert times[later.id].run_at == later.run_at


async def test_a_scheduled_job_is_rung_for_when_it_is_due_and_another_after_a_minute(
    database: Database, store: Store, tenant: UUID
) -> None:
    now, later = new_job(tenant), new_job(tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    await store.submit_jobs([now, later])
    ringing, waiting = await look(database, now.id), await look(database, later.id)
    assert ringing.status is waiting.status is Status.QUEUED
    assert waiting.ring_at == later.run_at
    assert ringing.ring_at is not None
    assert ringing.ring_at - ringing.run_at == timedelta(minutes=1)


async def test_expiry_counts_from_when_the_job_may_run(store: Store, tenant: UUID) -> None:
    now = new_job(tenant, expires_in=60.0)
    later = new_job(tenant, run_at=datetime.now(UTC) + timedelta(hours=1), expires_in=60.0)
    for times in (await store.submit_jobs([now, later])).values():
        assert times.expires_at == times.run_at + timedelta(seconds=60)


async def test_payloads_are_kept_byte_for_byte(database: Database, store: Store, tenant: UUID) -> None:
    odd = b'{"b":1,"a":"\\u0000","b":2}'
    job = new_job(
        tenant,
        tensors=b"\x00\xff",
        parameters=odd,
        metadata=odd,
        callback_url="https://a",
        callback_events=["job.failed"],
    )
    await store.submit_jobs([job])
    (row,) = await database.fetch("SELECT * FROM job_inputs WHERE job_id = $1", job.id)
    assert (row["tensors"], row["parameters"], row["metadata"]) == (b"\x00\xff", odd, odd)
    assert (row["callback_url"], row["callback_events"]) == ("https://a", ["job.failed"])


async def test_a_batch_is_all_or_none(database: Database, store: Store, tenant: UUID) -> None:
    good = new_job(tenant)
    with pytest.raises(asyncpg.PostgresError):
        await store.submit_jobs([good, new_job(tenant, version="a\x00b")])
    assert await database.fetch("SELECT id FROM jobs") == []
    assert await list_doorbells(database) == set()


async def test_of_a_batch_those_whose_callers_key_was_revoked_are_left_out(
    database: Database, store: Store, tenant: UUID
) -> None:
    valid, revoked = ids.new(), ids.new()
    for key in (valid, revoked):
        await store.add_key(key, tenant, "test", hash_key(str(key)))
    await KeyStore(database).revoke(revoked)
    jobs = [new_job(tenant, key_id=key) for key in (valid, revoked, ids.new(), None)]
    assert (await store.submit_jobs(jobs)).keys() == {jobs[0].id, jobs[3].id}
    assert await list_doorbells(database) == {jobs[0].message.id, jobs[3].message.id}


async def test_one_bad_job_does_not_fail_those_batched_with_it(database: Database, store: Store, tenant: UUID) -> None:
    async def add(jobs: list[NewJob]) -> list[Times]:
        sizes.append(len(jobs))
        times = await store.submit_jobs(jobs)
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
    expected = {job.message.id for number, job in enumerate(jobs) if number not in refused}
    assert await list_doorbells(database) == expected


async def test_of_a_batch_under_one_key_the_first_is_committed_and_the_others_find_it(
    database: Database, store: Store, tenant: UUID
) -> None:
    jobs = [new_job(tenant, idempotency_key="k", fingerprint=bytes(32)) for _ in range(3)]
    times = await store.submit_jobs([*jobs, other := new_job(tenant)])
    assert times.keys() == {min(job.id for job in jobs), other.id}
    assert len(await list_doorbells(database)) == 2
    assert await store.submit_jobs([new_job(tenant, idempotency_key="k", fingerprint=bytes(32))]) == {}
    found = await IdempotencyStore(database).find_named([(tenant, "k"), (tenant, "unknown")])
    (named,) = found.values()
    assert (named.id, named.is_batch) == (min(job.id for job in jobs), False)
    assert (named.created_at, named.run_at, named.expires_at) == times[named.id]


async def test_a_key_is_another_tenants_too_and_free_after_a_day(
    database: Database, store: Store, tenant: UUID
) -> None:
    first = new_job(tenant, idempotency_key="k", fingerprint=bytes(32))
    await store.submit_jobs([first])
    stranger = await add_tenant(store, "stranger")
    assert await store.submit_jobs([new_job(stranger, idempotency_key="k", fingerprint=bytes(32))])
    await database.fetch("UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
    names = IdempotencyStore(database)
    assert await names.find_named([(tenant, "k")]) == {}
    second = new_job(tenant, idempotency_key="k", fingerprint=bytes(31) + b"1")
    assert (await store.submit_jobs([second])).keys() == {second.id}
    assert (await names.find_named([(tenant, "k")]))[tenant, "k"].id == second.id
