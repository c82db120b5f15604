"""An erased payload is gone from every table, and nothing of it is sent."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import asyncpg
import msgspec
import pytest

from common import ids
from common.job_states import Failure, Status
from common.jobs.end import end_jobs
from common.jobs.new_event import NewEvent
from common.jobs.requeue import requeue_jobs
from common.jobs.submit import submit_jobs
from common.postgres.database import Database
from services.dispatcher.results.store import ResultStore, Step
from services.gateway.http.problems import Problem
from services.gateway.jobs.actions.erasure import Eraser
from services.gateway.jobs.idempotency.store import IdempotencyStore
from services.gateway.jobs.schemas import DeadFilter
from services.gateway.jobs.store import JobStore
from services.notifier.delivery_attempts.result import AttemptError, AttemptResult
from services.notifier.delivery_attempts.retry_schedule import Exhausted, Rescheduled
from tests.integration.deliveries import subscribe
from tests.integration.forgetting import forget
from tests.integration.jobs import TRACEPARENT, add_tenant, claim, new_end, new_job, new_requeue, submit
from tests.integration.notifier.steps import OK, Steps
from tests.integration.world import World
from tests.support.database.database_columns import find_columns

SECRET = "hunter2-of-this-test"
RAW = f'{{"a":"{SECRET}"}}'.encode()
ANSWERED = AttemptResult(status_code=500, error=AttemptError.HTTP_STATUS, response=SECRET.encode())
PAYLOAD = {
    "tensors": SECRET.encode(),
    "parameters": RAW,
    "metadata": RAW,
    "callback_url": f"https://a/{SECRET}",
    "callback_events": ["job.succeeded", "job.failed"],
    "output_location": f"s3://bucket/{SECRET}/",
    "request": RAW,
}


@pytest.fixture
def world(database: Database, tenant: UUID) -> World:
    return World(database, tenant)


@pytest.fixture
def eraser(database: Database) -> Eraser:
    return Eraser(database, delivery_wait=0.0)


@pytest.fixture
async def connection(database_url: str) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def end(database: Database, job: UUID, status: Status) -> UUID:
    """End a queued job with the secret in every field of its end. Return its event."""
    event = NewEvent(ids.new(), f"job.{status}", 2, RAW, TRACEPARENT)
    failure = None if status is Status.SUCCEEDED else Failure("inference_failed", SECRET, False)
    outputs = RAW if status is Status.SUCCEEDED else None
    ended = new_end(await claim(database, job), status, event=event, failure=failure, outputs=outputs)
    assert await end_jobs(database, [ended]) == {event.id}
    return event.id


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED])
async def test_no_column_of_any_table_has_the_payload(
    world: World, eraser: Eraser, connection: "asyncpg.Connection[asyncpg.Record]", status: Status
) -> None:
    """Neither inputs, outputs, errors, events and responses, nor the events about its deliveries."""
    database, tenant = world.database, world.tenant
    await subscribe(database, tenant, events=["*"])
    steps = Steps(database)
    job = await submit(database, tenant, **PAYLOAD)
    claimed = await claim(database, job)
    await ResultStore(database).add_steps([Step(job, claimed.claim, 1, RAW)])
    first = new_requeue(claimed, failure=Failure("inference_failed", SECRET, True))
    await requeue_jobs(database, [first])
    event = await end(database, job, status)
    await steps.schedule(event)
    assert len(await steps.attempt((ANSWERED, Rescheduled(0.0)))) == 2
    await world.database.fetch("UPDATE endpoints SET failures = 0, failing_since = NULL, next_at = now()")
    assert len(await steps.attempt((ANSWERED, Exhausted()))) == 2
    about = [record["id"] for record in await database.fetch("SELECT id FROM events WHERE about_job_id = $1", job)]
    assert len(about) == 2
    await steps.schedule(about[0])  # the delivery of the other event is new
    await steps.attempt((ANSWERED, Rescheduled(60.0)))
    before = set(await find_columns(connection, SECRET))
    everywhere = {"jobs.tensors", "jobs.parameters", "jobs.metadata", "jobs.callback_url", "jobs.request"}
    everywhere |= {
        "jobs.output_location",
        "events.body",
        "events.callback_url",
        "attempts.response",
        "deliveries.response",
        "deliveries.url",
        "job_attempts.error_message",
        "job_steps.outputs",
    }
    everywhere |= {"jobs.outputs"} if status is Status.SUCCEEDED else {"jobs.error_message"}
    assert before == everywhere

    assert await eraser.erase(tenant, job)
    assert await find_columns(connection, SECRET) == []
    assert not await eraser.erase(tenant, job)
    found = await JobStore(database).find_job(job, tenant)
    assert found is not None
    assert (found.row.status, found.outputs, found.row.metadata) == (status, None, None)
    assert (found.webhook_status, found.row.error_message) == ("none", None)
    assert found.row.finished_at is not None
    assert await JobStore(database).read_outputs(job) is None
    assert await steps.claim() == []


async def test_pending_deliveries_and_events_are_not_sent(world: World, eraser: Eraser) -> None:
    webhook = await subscribe(world.database, world.tenant, events=["*"])
    steps = Steps(world.database)
    told, untold = [await submit(world.database, world.tenant, **PAYLOAD) for _ in range(2)]
    event = await end(world.database, told, Status.SUCCEEDED)
    late = await end(world.database, untold, Status.SUCCEEDED)
    await steps.schedule(event)
    assert await eraser.erase(world.tenant, told)
    assert await eraser.erase(world.tenant, untold)
    assert await steps.take(event, late) == []
    assert await steps.claim() == []
    kept = await end(world.database, await submit(world.database, world.tenant), Status.SUCCEEDED)
    await steps.schedule(kept)
    assert [claim.webhook_id for claim in await steps.attempt(OK)] == [webhook.id]


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELED])
async def test_an_erased_job_is_not_retried(world: World, eraser: Eraser, status: Status) -> None:
    await world.begin()
    job, other = [await submit(world.database, world.tenant) for _ in range(2)]
    for each in (job, other):
        claimed = await claim(world.database, each)
        if status is Status.CANCELED:
            await world.cancel(each)
        await end_jobs(world.database, [new_end(claimed, status)])
    assert await eraser.erase(world.tenant, job)
    dead = await JobStore(world.database).list_dead_letters(world.tenant, None, DeadFilter(), 10)
    assert [row.id for row in dead] == ([other] if status is Status.FAILED else [])
    assert await world.retry(job) == set()
    assert await world.retry(job, "small") == set()
    assert await world.replay([job]) == set()
    assert await world.retry(other) == {other}


async def test_only_the_tenants_own_ended_jobs_are_erased(world: World, eraser: Eraser) -> None:
    stranger = await add_tenant(world.database, "stranger")
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


async def test_the_key_of_an_erased_job_still_belongs_to_it(world: World, eraser: Eraser) -> None:
    job = new_job(world.tenant, idempotency_key="k", fingerprint=bytes(32), **PAYLOAD)
    await submit_jobs(world.database, [job])
    await end(world.database, job.id, Status.SUCCEEDED)
    assert await eraser.erase(world.tenant, job.id)
    again = msgspec.structs.replace(job, id=ids.new())
    assert await submit_jobs(world.database, [again]) == ({}, {})
    record = (await IdempotencyStore(world.database).find_records([(world.tenant, "k")]))[world.tenant, "k"]
    assert (record.id, record.erased) == (job.id, True)


async def test_an_erased_job_is_removed_after_its_retention(world: World, eraser: Eraser) -> None:
    job = await submit(world.database, world.tenant, **PAYLOAD)
    await end(world.database, job, Status.SUCCEEDED)
    assert await eraser.erase(world.tenant, job)
    await world.pass_time(timedelta(days=1).total_seconds())
    await world.database.fetch("UPDATE jobs SET ended_xid = NULL")  # its usage is counted
    assert await forget(world.database) == 1
