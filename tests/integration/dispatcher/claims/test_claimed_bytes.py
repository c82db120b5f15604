"""Claims load a bounded number of bytes, and a dispatcher holds a bounded number."""

import asyncio
from collections.abc import Sequence
from functools import partial
from uuid import UUID

import pytest

from common import ids
from common.errors import Retry
from common.jobs import Priority
from common.postgres.batcher import MAX_BATCH_BYTES
from common.postgres.database import Database
from services.dispatcher.claims import input_budget
from services.dispatcher.claims.claimed_job import ClaimedJob
from services.dispatcher.claims.claims import Claims
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.claims.store import ClaimStore
from services.dispatcher.models.fair_share import NIL
from services.dispatcher.models.served_model import ServedModel
from tests.integration.jobs import LEASE, add_tenant, submit, take
from tests.support.waiting import eventually

MEGABYTE = 1024 * 1024


@pytest.fixture
def model() -> ServedModel:
    return ServedModel("echo", asyncio.Event())


def make_claims(database: Database, max_inputs: int) -> Claims:
    store = ClaimStore(database)
    return Claims(store, RunLimits(store, list), worker="w", lease=LEASE, max_inputs=max_inputs)


async def submit_sizes(database: Database, tenant: UUID, sizes: Sequence[int]) -> list[UUID]:
    """Submit jobs with inputs of these sizes, to be claimed in this order."""
    new_ids = sorted(ids.new() for _ in sizes)
    return [
        await submit(database, tenant, id=each, tensors=bytes(size)) for each, size in zip(new_ids, sizes, strict=True)
    ]


async def test_one_claim_loads_a_bounded_number_of_bytes(database: Database, tenant: UUID) -> None:
    jobs = await submit_sizes(database, tenant, [3 * MEGABYTE] * 4)
    for each in (jobs[:2], jobs[2:]):
        assert [job.row.id for job in await take(database, 50)] == each
    assert 2 * 3 * MEGABYTE <= MAX_BATCH_BYTES < 3 * 3 * MEGABYTE


async def test_a_job_that_does_not_fit_is_not_claimed_but_reported(database: Database, tenant: UUID) -> None:
    jobs = await submit_sizes(database, tenant, [100, 5000, 10])

    async def look(max_bytes: int) -> tuple[list[UUID], bool, int | None]:
        found = await ClaimStore(database).claim_jobs(
            "echo", Priority.NORMAL, 50, NIL, {}, "w", LEASE, max_bytes=max_bytes
        )
        return [job.row.id for job in found.jobs], found.contended, found.next_bytes

    assert await look(1000) == (jobs[:1], False, 5000)
    assert await look(1000) == ([], False, 5000)
    assert await look(5000) == (jobs[1:2], False, 10)
    assert await look(5000) == (jobs[2:], False, None)


async def test_a_dispatcher_holds_a_bounded_number_of_bytes(
    database: Database, tenant: UUID, model: ServedModel
) -> None:
    """With 4,000 bytes for all, a queue gets 3,000. Another queue still finds room."""
    jobs = [await submit(database, tenant, tensors=bytes(900)) for _ in range(5)]
    await submit(database, tenant, model="other", tensors=bytes(900))
    claims, other = make_claims(database, 4000), ServedModel("other", asyncio.Event())
    claiming = [asyncio.create_task(claims.claim(model, Priority.NORMAL)) for _ in jobs]

    def claimed() -> list[ClaimedJob]:
        return [job for each in claiming if each.done() and (job := each.result())]

    async def are_claimed(count: int) -> bool:
        return len(claimed()) >= count

    await eventually(partial(are_claimed, 3), "a queue's share is full")
    neighbour = await asyncio.wait_for(claims.claim(other, Priority.NORMAL), 10)
    assert neighbour is not None
    claims.release(neighbour)
    for count in (3, 4, 5):
        await eventually(partial(are_claimed, count), f"{count} jobs are claimed")
        for _ in range(50):  # long enough for more claims
            await database.fetch("SELECT 1")
        assert len(claimed()) == count
        claims.release(claimed()[0])
    assert sorted(job.row.id for job in claimed()) == sorted(jobs)


async def test_a_job_larger_than_the_memory_runs_when_its_queue_holds_nothing(
    database: Database, tenant: UUID, model: ServedModel
) -> None:
    small, large = await submit_sizes(database, tenant, [100, 50_000])
    claims = make_claims(database, 4000)
    first = await claims.claim(model, Priority.NORMAL)
    waiting = await start_waiting(claims, model)
    assert first is not None
    assert first.row.id == small
    assert not waiting.done()
    claims.release(first)
    second = await asyncio.wait_for(waiting, 10)
    assert second is not None
    assert second.row.id == large


async def test_a_small_job_of_another_tenant_passes_a_large_one_that_finds_no_room(
    database: Database, tenant: UUID, model: ServedModel
) -> None:
    """The first tenant's job may run for hours. The other tenant runs nothing, so it is next."""
    large = [await submit(database, tenant, tensors=bytes(2000)) for _ in range(2)]
    claims = make_claims(database, 4000)
    first = await claims.claim(model, Priority.NORMAL)
    assert first is not None
    waiting = await start_waiting(claims, model)
    small = await submit(database, await add_tenant(database, "other"), tensors=bytes(10))
    second = await asyncio.wait_for(waiting, 20)
    assert second is not None
    assert [first.row.id, second.row.id] == [large[0], small]
    third = asyncio.create_task(claims.claim(model, Priority.NORMAL))
    claims.release(first)
    last = await asyncio.wait_for(third, 20)
    assert last is not None
    assert last.row.id == large[1]


async def test_a_pause_holds_for_a_claim_that_waits_for_room(
    database: Database, tenant: UUID, model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_budget, "LOOK_SECONDS", 60.0)
    await submit_sizes(database, tenant, [100, 5000])
    store = ClaimStore(database)
    limits = RunLimits(store, list)
    claims = Claims(store, limits, worker="w", lease=LEASE, max_inputs=4000)
    first = await claims.claim(model, Priority.NORMAL)
    assert first is not None
    waiting = await start_waiting(claims, model)
    await database.fetch("UPDATE tenants SET paused_at = now()")
    reading = asyncio.create_task(limits.run())
    await eventually(lambda: is_paused(limits), "the pause is read")
    claims.release(first)
    assert await asyncio.wait_for(waiting, 20) is None
    reading.cancel()


async def test_large_jobs_of_many_queues_leave_room_for_small_ones(
    database: Database, tenant: UUID, model: ServedModel
) -> None:
    """One of the small jobs may run for hours."""
    total = 100_000
    claims = make_claims(database, total)
    for number in range(4):
        queue = f"large-{number}"
        await submit(database, tenant, model=queue, tensors=bytes(total // 3))
        assert await claims.claim(ServedModel(queue, asyncio.Event()), Priority.NORMAL) is not None
    assert claims.inputs.used > total
    for _ in range(3):
        await submit(database, tenant, tensors=bytes(10))
        assert await asyncio.wait_for(claims.claim(model, Priority.NORMAL), 20) is not None


async def test_a_claim_without_room_ends_when_the_dispatcher_stops(
    database: Database, tenant: UUID, model: ServedModel
) -> None:
    await submit_sizes(database, tenant, [100, 5000])
    claims = make_claims(database, 4000)
    assert await claims.claim(model, Priority.NORMAL) is not None
    waiting = await start_waiting(claims, model)
    claims.inputs.close()
    with pytest.raises(Retry, match="no room"):
        await waiting


async def is_paused(limits: RunLimits) -> bool:
    return bool((await limits.get()).paused_tenants)


async def start_waiting(claims: Claims, model: ServedModel) -> "asyncio.Task[ClaimedJob | None]":
    """Start a claim, and return when the next job has found no room."""
    task = asyncio.create_task(claims.claim(model, Priority.NORMAL))

    async def is_too_large() -> bool:
        return claims.inputs.limit_count((model.name, Priority.NORMAL), 50, 1) == 1

    await eventually(is_too_large, "the next job finds no room")
    return task
