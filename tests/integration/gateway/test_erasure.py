"""What is erased is gone from every table, for good, and nothing of it is sent any more."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import asyncpg
import msgspec
import pytest

from common import ids
from common.database import Database
from common.jobs import Failure, Status
from common.outbox import ring_event
from services.dispatcher.store import Event, Start
from services.dispatcher.store import Store as DispatcherStore
from services.gateway.erasure import Eraser
from services.gateway.errors import Problem
from services.gateway.idempotency_store import IdempotencyStore
from services.gateway.schemas import DeadFilter
from services.gateway.store import Store
from services.notifier.outcome import Fault, Outcome
from services.notifier.schedule import Again, Exhausted
from tests.columns import find_columns
from tests.integration.deliveries import look_at, subscribe
from tests.integration.jobs import TRACEPARENT, add_tenant, claim, new_end, new_job, new_requeue, submit
from tests.integration.notifier.steps import OK, Steps
from tests.integration.waiting import until_blocked
from tests.integration.world import World

SECRET = "hunter2-of-this-test"
RAW = f'{{"a":"{SECRET}"}}'.encode()
ANSWERED = Outcome(status_code=500, fault=Fault.HTTP_STATUS, response=SECRET.encode())
PAYLOAD = {
    "tensors": SECRET.encode(),
    "parameters": RAW,
    "metadata": RAW,
    "callback_url": f"https://a/{SECRET}",
    "callback_events": ["job.succeeded", "job.failed"],
}


@pytest.fixture
def world(database: Database, tenant: UUID) -> World:
    return World(database, tenant)


@pytest.fixture
def eraser(database: Database) -> Eraser:
    return Eraser(database, patience=0.0)


@pytest.fixture
async def connection(database_url: str) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def end(database: Database, job: UUID, status: Status) -> UUID:
    """Ends a queued job with the secret in all that its end has; returns its event."""
    event = Event(ids.new(), f"job.{status}", RAW, ring_event(ids.new(), f"job.{status}", TRACEPARENT))
    failure = None if status is Status.SUCCEEDED else Failure("inference_failed", SECRET, False)
    outputs = RAW if status is Status.SUCCEEDED else None
    ended = new_end(await claim(database, job), status, event=event, failure=failure, outputs=outputs)
    assert await DispatcherStore(database).end_jobs([ended]) == {event.id}
    return event.id


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED])
async def test_no_column_of_any_table_has_the_payload_after_it(
    world: World, eraser: Eraser, connection: "asyncpg.Connection[asyncpg.Record]", status: Status
) -> None:
    """Not what came in, came out, went wrong, was to be told or was answered, nor what was told of that."""
    database, tenant = world.database, world.tenant
    await subscribe(database, tenant, events=["*"])
    steps = Steps(database)
    job = await submit(database, tenant, **PAYLOAD)
    first = new_requeue(await claim(database, job), failure=Failure("inference_failed", SECRET, True))
    await DispatcherStore(database).requeue_jobs([first])
    event = await end(database, job, status)
    await steps.fan_out(event)
    assert len(await steps.attempt((ANSWERED, Exhausted()))) == 2
    about = [record["id"] for record in await database.fetch("SELECT id FROM events WHERE about_job_id = $1", job)]
    assert len(about) == 2
    await steps.fan_out(about[0])  # the other one is still to be told
    await steps.attempt((ANSWERED, Again(60.0)))
    before = set(await find_columns(connection, SECRET))
    everywhere = {"job_inputs.tensors", "job_inputs.parameters", "job_inputs.metadata", "job_inputs.callback_url"}
    everywhere |= {"events.body", "attempts.response", "deliveries.url", "job_attempts.error_message"}
    everywhere |= {"job_outputs.outputs"} if status is Status.SUCCEEDED else {"jobs.error_message"}
    assert before == everywhere

    assert await eraser.erase(tenant, job)
    assert await find_columns(connection, SECRET) == []
    assert not await eraser.erase(tenant, job)
    found = await Store(database).find_job(job, tenant)
    assert found is not None
    assert (found.row.status, found.outputs, found.row.metadata) == (status, None, None)
    assert (found.webhook_status, found.row.error_message) == ("none", None)
    assert found.row.finished_at is not None
    assert await Store(database).find_outputs(job) is None
    assert await steps.claim() == []


async def test_what_waits_to_be_sent_or_told_is_not(world: World, eraser: Eraser) -> None:
    webhook = await subscribe(world.database, world.tenant, events=["*"])
    steps = Steps(world.database)
    told, untold = [await submit(world.database, world.tenant, **PAYLOAD) for _ in range(2)]
    event = await end(world.database, told, Status.SUCCEEDED)
    late = await end(world.database, untold, Status.SUCCEEDED)
    await steps.fan_out(event)
    assert await eraser.erase(world.tenant, told)
    assert await eraser.erase(world.tenant, untold)
    assert await steps.fan_out(event, late) == 0
    assert await steps.claim() == []
    kept = await end(world.database, await submit(world.database, world.tenant), Status.SUCCEEDED)
    await steps.fan_out(kept)
    assert [claim.webhook_id for claim in await steps.attempt(OK)] == [webhook.id]


async def test_what_is_being_sent_is_waited_for(world: World, eraser: Eraser) -> None:
    steps = Steps(world.database)
    job = await submit(world.database, world.tenant, **PAYLOAD)
    await steps.fan_out(await end(world.database, job, Status.SUCCEEDED))
    claims = await steps.claim()
    with pytest.raises(Problem) as refused:
        await eraser.erase(world.tenant, job)
    assert (refused.value.status, refused.value.headers) == (409, {"Retry-After": "5"})
    assert (await look_at(world.database, claims[0].id)).leased
    patient = asyncio.create_task(Eraser(world.database, patience=20.0).erase(world.tenant, job))
    assert await steps.record(claims, (ANSWERED, Again(60.0))) == [True]
    assert await patient


async def test_a_start_that_is_told_late_is_not_told_at_all(world: World, eraser: Eraser) -> None:
    """Whether it comes after the erasure, or while that is under way."""
    store = DispatcherStore(world.database)
    jobs = [await submit(world.database, world.tenant, **PAYLOAD) for _ in range(2)]
    starts = []
    for job in jobs:
        claimed = await claim(world.database, job)
        assert claimed.row.started_at is not None
        event = Event(ids.new(), "job.started", RAW, ring_event(ids.new(), "job.started", TRACEPARENT))
        starts.append(Start(claimed.row, claimed.row.started_at, event))
        await store.end_jobs([new_end(claimed)])
    assert await eraser.erase(world.tenant, jobs[0])
    async with world.database.transaction() as connection:
        await connection.execute("SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE", jobs[1])
        late = asyncio.create_task(store.record_events(starts))
        await until_blocked(world.database)
        await connection.execute("UPDATE jobs SET erased_at = now() WHERE id = $1", jobs[1])
    await late
    assert await world.database.fetch("SELECT 1 FROM events WHERE type = 'job.started'") == []


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELED])
async def test_an_erased_job_does_not_begin_anew(world: World, eraser: Eraser, status: Status) -> None:
    await world.begin()
    job, other = [await submit(world.database, world.tenant) for _ in range(2)]
    for each in (job, other):
        claimed = await claim(world.database, each)
        if status is Status.CANCELED:
            await world.cancel(each)
        await world.store.end_jobs([new_end(claimed, status)])
    assert await eraser.erase(world.tenant, job)
    dead = await world.control.store.list_dead(world.tenant, None, DeadFilter(), 10)
    assert [row.id for row in dead] == ([other] if status is Status.FAILED else [])
    assert await world.retry(job) == set()
    assert await world.retry(job, "small") == set()
    assert await world.replay([job]) == set()
    assert await world.retry(other) == {other}
    with pytest.raises(asyncpg.CheckViolationError):
        await world.database.fetch("UPDATE jobs SET status = 'queued', ring_at = now(), finished_at = NULL")


async def test_only_ended_jobs_of_ones_own_are_erased(world: World, eraser: Eraser) -> None:
    stranger = await add_tenant(Store(world.database), "stranger")
    job = await submit(world.database, world.tenant, **PAYLOAD)
    await expect(eraser, world.tenant, job, 409)
    await claim(world.database, job)
    await expect(eraser, world.tenant, job, 409)
    await world.cancel(job)
    await expect(eraser, world.tenant, job, 409)
    await expect(eraser, stranger, job, 404)
    await expect(eraser, world.tenant, ids.new(), 404)


async def expect(eraser: Eraser, tenant: UUID, job: UUID, status: int) -> None:
    with pytest.raises(Problem) as refused:
        await eraser.erase(tenant, job)
    assert refused.value.status == status


async def test_a_key_of_an_erased_job_stands_for_it_still(world: World, eraser: Eraser) -> None:
    store = Store(world.database)
    job = new_job(world.tenant, idempotency_key="k", fingerprint=bytes(32), **PAYLOAD)
    await store.submit_jobs([job])
    await end(world.database, job.id, Status.SUCCEEDED)
    assert await eraser.erase(world.tenant, job.id)
    again = msgspec.structs.replace(job, id=ids.new())
    assert await store.submit_jobs([again]) == {}
    named = (await IdempotencyStore(world.database).find_named([(world.tenant, "k")]))[world.tenant, "k"]
    assert (named.id, named.erased) == (job.id, True)


async def test_what_was_erased_goes_with_its_time(world: World, eraser: Eraser) -> None:
    job = await submit(world.database, world.tenant, **PAYLOAD)
    await end(world.database, job, Status.SUCCEEDED)
    assert await eraser.erase(world.tenant, job)
    await world.pass_time(timedelta(days=1).total_seconds())
    assert (await world.store.purge_jobs(3600.0, 10)).removed == 1
