"""What clients do to jobs after they were accepted."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from common.database import Database
from common.jobs import Failure, Status
from common.outbox import OutboxRow
from services.gateway.schemas import DeadFilter
from services.gateway.store import Store
from tests.integration.jobs import LEASE, add_tenant, claim, look, new_end, submit, trace
from tests.integration.world import World


@pytest.fixture
def world(database: Database, tenant: UUID) -> World:
    return World(database, tenant)


async def test_what_was_found_in_an_earlier_life_does_not_end_the_new_one(world: World) -> None:
    job = await submit(world.database, world.tenant, expires_in=10.0)
    await world.pass_time(20.0)
    ((found, now),) = await world.store.find_expired(10)  # by a sweeper that is slow to act on it
    assert await world.cancel(job) is Status.CANCELED
    assert await world.retry(job) == {job}
    await world.recorder.expire(found, now)
    state = await look(world.database, job)
    assert (state.status, state.expires_at, state.attempt) == (Status.QUEUED, None, 0)
    assert (await claim(world.database, job)).row.attempt == 1


async def fail(world: World, code: str = "inference_failed", tenant: UUID | None = None, **changes: Any) -> UUID:
    """A job that has failed."""
    job = await claim(world.database, await submit(world.database, tenant or world.tenant, **changes))
    await world.store.end_jobs([new_end(job, Status.FAILED, failure=Failure(code, "for good", False))])
    return job.row.id


async def list_dead(world: World, before: UUID | None = None, limit: int = 100, **wanted: Any) -> list[UUID]:
    found = await world.control.store.list_dead(world.tenant, before, DeadFilter(**wanted), limit)
    return [row.id for row in found]


async def test_dead_letters_are_found_by_what_they_are(world: World) -> None:
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


async def test_only_the_tenants_own_failures_are_dead_letters(world: World) -> None:
    stranger = await add_tenant(Store(world.database), "stranger")
    theirs, mine = await fail(world, tenant=stranger), await fail(world)
    ended = await claim(world.database, await submit(world.database, world.tenant))
    await world.store.end_jobs([new_end(ended)])
    canceled = await submit(world.database, world.tenant)
    await world.cancel(canceled)
    assert await list_dead(world) == [mine]
    assert await world.replay([theirs, mine, ended.row.id, canceled]) == {mine}
    assert (await look(world.database, theirs)).status is Status.FAILED


async def put_one_in_each_state(world: World) -> dict[Status, UUID]:
    expired = await submit(world.database, world.tenant, expires_in=10.0)
    await world.pass_time(20.0)
    await world.sweep()
    queued, canceled = [await submit(world.database, world.tenant) for _ in range(2)]
    processing, canceling, succeeded = [
        await claim(world.database, await submit(world.database, world.tenant)) for _ in range(3)
    ]
    await world.store.end_jobs([new_end(succeeded)])
    for job in (canceled, canceling.row.id):
        await world.cancel(job)
    jobs = {
        Status.QUEUED: queued,
        Status.PROCESSING: processing.row.id,
        Status.CANCELING: canceling.row.id,
        Status.SUCCEEDED: succeeded.row.id,
        Status.FAILED: await fail(world),
        Status.CANCELED: canceled,
        Status.EXPIRED: expired,
    }
    assert {job: (await look(world.database, job)).status for job in jobs.values()} == {
        job: status for status, job in jobs.items()
    }
    return jobs


@pytest.mark.parametrize("model", [None, "small"])
async def test_only_what_ended_without_an_answer_is_retried(world: World, model: str | None) -> None:
    await world.begin()
    jobs = await put_one_in_each_state(world)
    before = {job: await world.show(job) for job in jobs.values()}
    retried = {jobs[status] for status in (Status.FAILED, Status.CANCELED, Status.EXPIRED)}
    assert {job for job in before if await world.retry(job, model) == {job}} == retried
    assert {job for job, row in before.items() if await world.show(job) != row} == retried


@pytest.mark.parametrize("model", [None, "small"])
async def test_only_what_failed_is_replayed(world: World, model: str | None) -> None:
    await world.begin()
    jobs = await put_one_in_each_state(world)
    before = {job: await world.show(job) for job in jobs.values()}
    assert await world.replay(list(before), model) == {jobs[Status.FAILED]}
    assert {job for job, row in before.items() if await world.show(job) != row} == {jobs[Status.FAILED]}


async def test_pages_go_back_in_time_without_gaps_or_doubles(world: World) -> None:
    jobs = sorted([await fail(world) for _ in range(5)], reverse=True)
    found: list[UUID] = []
    while page := await list_dead(world, found[-1] if found else None, limit=2):
        assert len(page) <= 2
        found += page
    assert found == jobs


async def test_a_job_that_begins_anew_brings_nothing_of_its_end_along(world: World) -> None:
    job = await fail(world, version="3")
    assert await world.retry(job) == {job}
    state = await look(world.database, job)
    assert (state.status, state.attempt, state.error_code, state.started_at) == (Status.QUEUED, 0, None, None)
    assert (await claim(world.database, job)).row.version == "3"


async def test_on_another_model_it_is_no_version_of_the_first(world: World) -> None:
    await world.begin()
    job = await fail(world, version="3")
    assert await world.retry(job, "other") == set()
    assert await world.retry(job, "small") == {job}
    again = await claim(world.database, job)
    assert (again.row.model, again.row.version) == ("small", None)


async def test_what_a_client_asks_for_is_announced_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[OutboxRow] = []
    monkeypatch.setattr(world.control.outbox, "announce", told.extend)
    job = await submit(world.database, world.tenant)
    await world.cancel(job)
    await world.retry(job)
    await claim(world.database, job)
    await world.cancel(job)
    assert [row.routing_key for row in told] == ["job.canceled", "job.normal.echo", "job.cancel"]


async def test_a_job_that_begins_anew_is_rung_for_at_once_and_again_after_a_minute(world: World) -> None:
    job = await submit(world.database, world.tenant)
    await world.cancel(job)
    await world.take_doorbells()
    await world.retry(job)
    state = await look(world.database, job)
    assert state.ring_at is not None
    assert abs(state.ring_at - state.now - timedelta(minutes=1)) < timedelta(seconds=10)
    assert await world.take_doorbells() == [job]


async def test_a_canceling_job_whose_dispatcher_died_on_its_last_attempt_ends_canceled(world: World) -> None:
    job = (await claim(world.database, await submit(world.database, world.tenant, max_attempts=1))).row.id
    assert await world.cancel(job) is Status.CANCELING
    await world.sweep()
    assert (await look(world.database, job)).status is Status.CANCELING
    await world.pass_time(LEASE + 1)
    await world.sweep()
    state = await look(world.database, job)
    assert (state.status, state.error_code) == (Status.CANCELED, None)
    assert (await trace(world.database, job)).events == ["job.canceled"]
