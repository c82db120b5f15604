"""Claims load a bounded number of bytes, and a dispatcher holds a bounded number."""

import asyncio
from collections.abc import Sequence
from functools import partial
from uuid import UUID

import pytest

from common import ids
from common.job_states import Priority
from common.jobs.job import JobToRun
from common.postgres.batcher import MAX_BATCH_BYTES
from common.postgres.database import Database
from services.dispatcher.claims import input_budget
from services.dispatcher.claims.claims import Claims, NoRoom
from services.dispatcher.claims.input_budget import Room
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.claims.store import LimitStore
from services.dispatcher.models.served_model import ServedModel
from tests.integration.jobs import LEASE, add_tenant, claim_next, submit, take
from tests.support.waiting import eventually

MEGABYTE = 1024 * 1024


@pytest.fixture
def model() -> ServedModel:
    return ServedModel("echo", asyncio.Event())


def make_claims(database: Database, max_inputs: int) -> Claims:
    return Claims(database, RunLimits(LimitStore(database), list), worker="w", lease=LEASE, max_inputs=max_inputs)


async def claim(claims: Claims, model: ServedModel, priority: Priority) -> JobToRun | None:
    """Claim as the runner does, once there is room."""
    while True:
        try:
            return await claims.claim(model, priority)
        except NoRoom:
            await claims.wait_for_room(model, priority)


async def submit_sizes(database: Database, tenant: UUID, sizes: Sequence[int]) -> list[UUID]:
    """Submit jobs with inputs of these sizes, to be claimed in this order."""
    new_ids = sorted(ids.new() for _ in sizes)
    return [
        await submit(database, tenant, id=each, tensors=b"", file_bytes=size)
        for each, size in zip(new_ids, sizes, strict=True)
    ]


async def test_one_claim_loads_a_bounded_number_of_bytes(database: Database, tenant: UUID) -> None:
    jobs = await submit_sizes(database, tenant, [3 * MEGABYTE] * 4)
    for each in (jobs[:2], jobs[2:]):
        assert [job.id for job in await take(database, 50)] == each
    assert 2 * 3 * MEGABYTE <= MAX_BATCH_BYTES < 3 * 3 * MEGABYTE


async def test_a_job_that_does_not_fit_is_not_claimed_but_reported(database: Database, tenant: UUID) -> None:
    jobs = await submit_sizes(database, tenant, [100, 5000, 10])

    async def look(max_bytes: int) -> tuple[list[UUID], bool, int | None]:
        found = await claim_next(database, 50, max_bytes=max_bytes)
        return [job.id for job in found.jobs], found.contended, found.next_bytes

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
    claiming = [asyncio.create_task(claim(claims, model, Priority.NORMAL)) for _ in jobs]

    def claimed() -> list[JobToRun]:
        return [job for each in claiming if each.done() and (job := each.result())]

    async def are_claimed(count: int) -> bool:
        return len(claimed()) >= count

    await eventually(partial(are_claimed, 3), "a queue's share is full")
    neighbour = await asyncio.wait_for(claim(claims, other, Priority.NORMAL), 10)
    assert neighbour is not None
    claims.note_end(other, neighbour)
    for count in (3, 4, 5):
        await eventually(partial(are_claimed, count), f"{count} jobs are claimed")
        for _ in range(50):  # long enough for more claims
            await database.fetch("SELECT 1")
        assert len(claimed()) == count
        claims.note_end(model, claimed()[0])
    assert sorted(job.id for job in claimed()) == sorted(jobs)


async def test_a_job_larger_than_the_memory_runs_when_its_queue_holds_nothing(
    database: Database, tenant: UUID, model: ServedModel
) -> None:
    small, large = await submit_sizes(database, tenant, [100, 50_000])
    claims = make_claims(database, 4000)
    first = await claim(claims, model, Priority.NORMAL)
    waiting = await start_waiting(claims, model)
    assert first is not None
    assert first.id == small
    assert not waiting.done()
    claims.note_end(model, first)
    second = await asyncio.wait_for(waiting, 10)
    assert second is not None
    assert second.id == large


async def test_a_small_job_of_another_tenant_passes_a_large_one_that_finds_no_room(
    database: Database, tenant: UUID, model: ServedModel
) -> None:
    """The first tenant's job may run for hours. The other tenant runs nothing, so it is next."""
    large = sorted([await submit(database, tenant, tensors=bytes(2000)) for _ in range(2)])
    claims = make_claims(database, 4000)
    first = await claim(claims, model, Priority.NORMAL)
    assert first is not None
    waiting = await start_waiting(claims, model)
    small = await submit(database, await add_tenant(database, "other"), tensors=bytes(10))
    second = await asyncio.wait_for(waiting, 20)
    assert second is not None
    assert [first.id, second.id] == [large[0], small]
    third = asyncio.create_task(claim(claims, model, Priority.NORMAL))
    claims.note_end(model, first)
    last = await asyncio.wait_for(third, 20)
    assert last is not None
    assert last.id == large[1]


async def test_a_pause_holds_for_a_claim_that_waits_for_room(
    database: Database, tenant: UUID, model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_budget, "LOOK_SECONDS", 60.0)
    await submit_sizes(database, tenant, [100, 5000])
    limits = RunLimits(LimitStore(database), list)
    claims = Claims(database, limits, worker="w", lease=LEASE, max_inputs=4000)
    first = await claim(claims, model, Priority.NORMAL)
    assert first is not None
    waiting = await start_waiting(claims, model)
    await database.fetch("UPDATE tenants SET paused_at = now()")
    reading = asyncio.create_task(limits.run())
    await eventually(lambda: is_paused(limits), "the pause is read")
    claims.note_end(model, first)
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
        assert await claim(claims, ServedModel(queue, asyncio.Event()), Priority.NORMAL) is not None
    assert claims.inputs.used > total
    for _ in range(3):
        await submit(database, tenant, tensors=bytes(10))
        assert await asyncio.wait_for(claim(claims, model, Priority.NORMAL), 20) is not None


@pytest.fixture
async def tenants(database: Database) -> list[UUID]:
    """Four tenants in the order of their turns."""
    return sorted([await add_tenant(database, f"tenant {number}") for number in range(4)])


async def test_small_jobs_pass_a_large_one_of_another_tenant_that_has_no_room(
    database: Database, tenants: list[UUID], model: ServedModel
) -> None:
    """At equal turns. The first job may run for hours. Then the large one comes next, however many wait by then."""
    first, *large = [await submit(database, tenant, tensors=bytes(40_000)) for tenant in tenants[:3]]
    claims = make_claims(database, 64_000)  # 500 for jobs that pass
    running = await claim(claims, model, Priority.NORMAL)
    assert running is not None
    assert running.id == first
    small = sorted([await submit(database, tenants[3], tensors=bytes(100)) for _ in range(20)])
    passed = await claim_all(claims, model)
    assert sorted(job.id for job in passed) == small[:5]
    for job in passed[:2]:
        claims.note_end(model, job)
    assert sorted(job.id for job in await claim_all(claims, model)) == small[5:7]
    for each in large:
        claims.note_end(model, running)
        running = await claim(claims, model, Priority.NORMAL)
        assert running is not None
        assert running.id == each


async def test_tenants_pass_a_large_job_in_turns(database: Database, tenants: list[UUID], model: ServedModel) -> None:
    """With one free slot, so that each job ends before the next one begins."""
    for tenant in tenants[:2]:
        await submit(database, tenant, tensors=bytes(40_000))
    claims = make_claims(database, 64_000)
    running = await claim(claims, model, Priority.NORMAL)
    for tenant in tenants[2:]:
        for _ in range(6):
            await submit(database, tenant, tensors=bytes(100))
    served = []
    for _ in range(6):
        job = await claim(claims, model, Priority.NORMAL)
        assert job is not None
        served.append(job.tenant_id)
        claims.note_end(model, job)
    assert served == tenants[2:] * 3
    assert running is not None
    claims.note_end(model, running)
    large = await claim(claims, model, Priority.NORMAL)
    assert large is not None
    assert (large.tenant_id, large.passed) == (tenants[1], False)


async def test_small_jobs_pass_within_their_own_bytes(database: Database, tenant: UUID) -> None:
    jobs = await submit_sizes(database, tenant, [600, 5000, 200, 50, 200, 300, 50])

    async def look(room: Room) -> tuple[list[tuple[UUID, bool]], int | None]:
        limits = {"max_bytes": room.in_turn, "max_passing_bytes": room.passing}
        found = await claim_next(database, 50, **limits)
        return [(job.id, job.passed) for job in found.jobs], found.next_bytes

    assert await look(Room(1000, 300)) == ([(jobs[0], False), (jobs[2], True), (jobs[3], True)], 5000)
    assert await look(Room(5400, 0)) == ([(jobs[1], False), (jobs[4], False)], 300)


async def claim_all(claims: Claims, model: ServedModel) -> list[JobToRun]:
    """Claim until a job finds no room."""
    claimed = list[JobToRun]()
    while True:
        try:
            job = await claims.claim(model, Priority.NORMAL)
        except NoRoom:
            return claimed
        assert job is not None
        claimed.append(job)


async def is_paused(limits: RunLimits) -> bool:
    return bool((await limits.get()).paused_tenants)


async def start_waiting(claims: Claims, model: ServedModel) -> "asyncio.Task[JobToRun | None]":
    """Start a claim, and return when the next job has found no room."""
    with pytest.raises(NoRoom):
        await claims.claim(model, Priority.NORMAL)
    assert model.lacks_room  # which the reason of the wait says
    task = asyncio.create_task(claim(claims, model, Priority.NORMAL))
    await asyncio.sleep(0)
    return task
