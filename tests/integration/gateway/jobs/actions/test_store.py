"""Cancel, retry and replay in the database."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from common.job_states import Failure, Status
from common.jobs.end import end_jobs
from common.jobs.expire import find_expired
from common.postgres.database import Database
from services.gateway.jobs.actions import retry
from services.gateway.jobs.actions.store import RetryStore
from services.gateway.jobs.schemas import DeadFilter
from services.gateway.jobs.store import JobStore
from tests.integration.jobs import LEASE, add_tenant, claim, look, new_end, promote_suspect, submit, take, trace
from tests.integration.world import World


@pytest.fixture
def world(database: Database, tenant: UUID) -> World:
    return World(database, tenant)


async def test_an_expiry_found_before_a_retry_does_not_end_the_job(world: World) -> None:
    job = await submit(world.database, world.tenant, expires_in=10.0)
    await world.pass_time(20.0)
    ((found, now),) = await find_expired(world.database, 10)  # by a slow sweeper
    assert await world.cancel(job) is Status.CANCELED
    assert await world.retry(job) == {job}
    await world.recorder.expire(found, now)
    state = await look(world.database, job)
    assert (state.status, state.expires_at, state.attempt) == (Status.QUEUED, None, 0)
    assert (await claim(world.database, job)).attempt == 1


async def fail(world: World, code: str = "inference_failed", tenant: UUID | None = None, **changes: Any) -> UUID:
    """Submit a job, and let it fail."""
    job = await claim(world.database, await submit(world.database, tenant or world.tenant, **changes))
    await end_jobs(world.database, [new_end(job, Status.FAILED, failure=Failure(code, "for good", False))])
    return job.id


async def list_dead(world: World, before: UUID | None = None, limit: int = 100, **filters: Any) -> list[UUID]:
    found = await JobStore(world.database).list_dead_letters(world.tenant, before, DeadFilter(**filters), limit)
    return [row.id for row in found]


async def test_dead_letters_are_filtered(world: World) -> None:
    old = await fail(world)
    await world.pass_time(3600.0)
    hour_ago = datetime.now(UTC) - timedelta(minutes=30)
    new, other, refused = await fail(world), await fail(world, model="other"), await fail(world, "invalid_input")
    assert set(await list_dead(world)) == {old, new, other, refused}
    assert await list_dead(world, model="other") == [other]
    assert await list_dead(world, error="invalid_input") == [refused]
    assert await list_dead(world, created_before=hour_ago) == [old]
    assert set(await list_dead(world, created_after=hour_ago)) == {new, other, refused}
    assert await list_dead(world, created_after=hour_ago, model="echo", error="inference_failed") == [new]


async def test_dead_letters_are_the_tenants_own_failures(world: World) -> None:
    stranger = await add_tenant(world.database, "stranger")
    theirs, mine = await fail(world, tenant=stranger), await fail(world)
    ended = await claim(world.database, await submit(world.database, world.tenant))
    await end_jobs(world.database, [new_end(ended)])
    canceled = await submit(world.database, world.tenant)
    await world.cancel(canceled)
    assert await list_dead(world) == [mine]
    assert await world.replay([theirs, mine, ended.id, canceled]) == {mine}
    assert (await look(world.database, theirs)).status is Status.FAILED


async def put_one_in_each_state(world: World) -> dict[Status, UUID]:
    expired = await submit(world.database, world.tenant, expires_in=10.0)
    await world.pass_time(20.0)
    await world.sweep()
    queued, canceled = [await submit(world.database, world.tenant) for _ in range(2)]
    processing, canceling, succeeded = [
        await claim(world.database, await submit(world.database, world.tenant)) for _ in range(3)
    ]
    await end_jobs(world.database, [new_end(succeeded)])
    for job in (canceled, canceling.id):
        await world.cancel(job)
    jobs = {
        Status.QUEUED: queued,
        Status.PROCESSING: processing.id,
        Status.CANCELING: canceling.id,
        Status.SUCCEEDED: succeeded.id,
        Status.FAILED: await fail(world),
        Status.CANCELED: canceled,
        Status.EXPIRED: expired,
    }
    assert {job: (await look(world.database, job)).status for job in jobs.values()} == {
        job: status for status, job in jobs.items()
    }
    return jobs


@pytest.mark.parametrize("model", [None, "small"])
async def test_only_failed_canceled_and_expired_jobs_are_retried(world: World, model: str | None) -> None:
    await world.begin()
    jobs = await put_one_in_each_state(world)
    before = {job: await world.show(job) for job in jobs.values()}
    retried = {jobs[status] for status in (Status.FAILED, Status.CANCELED, Status.EXPIRED)}
    assert {job for job in before if await world.retry(job, model) == {job}} == retried
    assert {job for job, row in before.items() if await world.show(job) != row} == retried


@pytest.mark.parametrize("model", [None, "small"])
async def test_only_failed_jobs_are_replayed(world: World, model: str | None) -> None:
    await world.begin()
    jobs = await put_one_in_each_state(world)
    before = {job: await world.show(job) for job in jobs.values()}
    assert await world.replay(list(before), model) == {jobs[Status.FAILED]}
    assert {job for job, row in before.items() if await world.show(job) != row} == {jobs[Status.FAILED]}


async def test_pages_have_no_gaps_and_no_duplicates(world: World) -> None:
    jobs = sorted([await fail(world) for _ in range(5)], reverse=True)
    found: list[UUID] = []
    while page := await list_dead(world, found[-1] if found else None, limit=2):
        assert len(page) <= 2
        found += page
    assert found == jobs


async def test_a_retried_job_keeps_nothing_of_its_end(world: World) -> None:
    job = await fail(world, version="3")
    assert await world.retry(job) == {job}
    state = await look(world.database, job)
    assert (state.status, state.attempt, state.error_code, state.started_at) == (Status.QUEUED, 0, None, None)
    assert (await claim(world.database, job)).version == "3"


async def test_a_retried_suspect_stays_one_on_its_model(world: World) -> None:
    """Otherwise each retry could stop Triton three more times before it counts."""
    await world.begin()
    same, other, harmless = [await fail(world) for _ in range(3)]
    await world.database.fetch("UPDATE jobs SET probation = 60")
    await world.database.fetch("UPDATE jobs SET interruptions = 4 WHERE id <> $1", harmless)
    assert await world.retry(same) == {same}
    assert await world.retry(other, "small") == {other}
    assert await world.retry(harmless) == {harmless}
    state = await look(world.database, same)
    assert (state.interruptions, state.attempt, state.scheduled_at) == (4, 0, state.run_at)
    assert [job.id for job in await take(world.database, 9)] == [harmless]
    assert [job.interruptions for job in await take(world.database, 9, model="small")] == [0]
    assert len(await promote_suspect(world.database)) == 1
    assert [(job.id, job.probation) for job in await take(world.database, 9)] == [(same, 60.0)]


async def test_a_retry_on_another_model_has_no_version(world: World) -> None:
    await world.begin()
    job = await fail(world, version="3")
    assert await world.retry(job, "other") == set()
    assert await world.retry(job, "small") == {job}
    again = await claim(world.database, job)
    assert (again.model, again.version) == ("small", None)


async def test_a_replay_on_another_model_never_holds_the_inputs_of_all_jobs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.begin()
    jobs = {await fail(world) for _ in range(5)}
    read = RetryStore.read_inputs
    held: list[int] = []

    async def read_some(store: RetryStore, tenant: UUID, some: Sequence[UUID]) -> dict[UUID, bytes]:
        held.append(len(some))
        return await read(store, tenant, some)

    monkeypatch.setattr(RetryStore, "read_inputs", read_some)
    monkeypatch.setattr(retry, "MAX_BATCH_BYTES", 1)
    assert await world.replay([*jobs], "small") == jobs
    assert held == [1, 1, 1, 1, 1]


async def test_a_cancel_and_a_retry_are_announced_at_once(world: World) -> None:
    job = await submit(world.database, world.tenant)
    await world.cancel(job)
    await world.retry(job)
    await claim(world.database, job)
    await world.cancel(job)
    assert [wake_up.routing_key for wake_up in world.wake_ups.take()] == [
        "job.canceled",
        "job.normal.echo",
        "job.cancel",
    ]


async def test_a_retried_job_is_claimable_at_once(world: World) -> None:
    job = await submit(world.database, world.tenant)
    await world.cancel(job)
    await world.retry(job)
    assert [job.id for job in await world.answer(world.wake_ups.take_jobs())] == [job]


async def test_a_canceling_job_whose_dispatcher_died_ends_canceled(world: World) -> None:
    job = (await claim(world.database, await submit(world.database, world.tenant, max_attempts=1))).id
    assert await world.cancel(job) is Status.CANCELING
    await world.sweep()
    assert (await look(world.database, job)).status is Status.CANCELING
    await world.pass_time(LEASE + 1)
    await world.sweep()
    state = await look(world.database, job)
    assert (state.status, state.error_code) == (Status.CANCELED, None)
    assert (await trace(world.database, job)).events == ["job.canceled"]
