"""Events are read in order, in whatever generation of history they are."""

from uuid import UUID

import asyncpg
import pytest

from common import ids
from common.event_types import EVENT_TYPES
from common.job_states import Status
from common.jobs.end import end_jobs
from common.jobs.requeue import requeue_jobs
from common.postgres.database import Database
from services.dispatcher.results.store import ResultStore, Step
from services.gateway.events.feed.store import START as FEED_START
from services.gateway.events.feed.store import FeedPlace, FeedPosition, FeedRow, FeedStore
from services.gateway.events.store import START, EventStore
from tests.integration.dispatcher.maintenance.history.past import RETENTION, Past
from tests.integration.jobs import claim, new_end, new_requeue, submit
from tests.integration.world import World

ADD = (
    "INSERT INTO events (id, tenant_id, model, type, body, traceparent) VALUES ($1, $2, 'm', 'job.succeeded', '{}', '')"
)


@pytest.fixture
def past(database: Database, tenant: UUID) -> Past:
    return Past(database, tenant)


async def add(past: Past) -> UUID:
    event = ids.new()
    await past.database.fetch(ADD, event, past.tenant)
    return event


async def read(past: Past, after: FeedPosition = FEED_START, limit: int = 100) -> list[FeedRow]:
    (rows,) = await FeedStore(past.database).list_events([FeedPlace(past.tenant, after, EVENT_TYPES)], limit, 10**6)
    return rows


async def read_all(past: Past, after: FeedPosition = FEED_START) -> list[UUID]:
    """Read pages of two events."""
    found = []
    while rows := await read(past, after, 2):
        found += [row.position.id for row in rows]
        after = rows[-1].position
    return found


async def test_the_feed_is_in_order_over_all_generations(past: Past) -> None:
    added = []
    for _ in range(7):
        added += [await add(past) for _ in range(3)]
        await past.begin()
    assert await read_all(past) == added
    await past.database.fetch("UPDATE events SET generation = 8 WHERE id = ANY($1::uuid[])", added[1::4])  # kept
    assert await read_all(past) == added
    for row in await read(past):
        assert await read_all(past, row.position) == added[added.index(row.position.id) + 1 :]
    assert (await FeedStore(past.database).find_end(past.tenant)).id == added[-1]


async def test_an_event_that_is_committed_late_to_an_old_generation_is_not_skipped(
    past: Past, database_url: str
) -> None:
    first, late = await add(past), ids.new()
    slow = await asyncpg.connect(database_url)
    await slow.execute("SET session_replication_role = replica")  # the trigger reads, and so locks, all generations
    async with slow.transaction():
        await slow.execute(ADD, late, past.tenant)
        await past.begin()
        newer = await add(past)
        assert await read_all(past) == [first]
    await slow.close()
    found = await past.database.fetch("SELECT id FROM events ORDER BY generation, xid, id")
    assert [row["id"] for row in found] == [first, late, newer]
    assert await read_all(past) == [first, late, newer]


async def test_a_reader_goes_on_after_a_generation_that_is_gone(past: Past) -> None:
    store = FeedStore(past.database)
    for _ in range(2):
        await add(past)
    await past.begin()
    newer = [await add(past) for _ in range(2)]
    last_seen = (await read(past))[0].position
    await past.pass_time(RETENTION)
    assert await past.sweep() == 1
    assert await store.find_position(last_seen.id, past.tenant, None) is None
    after = await store.find_position(last_seen.id, past.tenant, last_seen.xid)
    assert after == last_seen
    assert await read_all(past, after) == newer
    assert await read_all(past) == newer


async def test_the_history_of_a_job_is_in_order_over_all_generations(past: Past) -> None:
    """Two attempts and a retry, each with a response in each of two generations."""
    world, results, store = World(past.database, past.tenant), ResultStore(past.database), EventStore(past.database)
    await world.begin()
    job = await submit(past.database, past.tenant)

    async def respond(number: int) -> None:
        await results.add_steps([Step(job, running.claim, number, b"[]")])

    for number in range(3):
        running = await claim(past.database, job)
        await respond(1)
        await past.begin()
        await respond(1)  # again: its first commit had no answer
        await respond(2)
        if number == 0:
            await requeue_jobs(past.database, [new_requeue(running)])
        elif number == 1:
            assert await world.cancel(job)
            await past.begin()
            assert await end_jobs(past.database, [new_end(running, Status.CANCELED, failure=None)])
            await past.begin()
            assert await world.retry(job) == {job}
        else:
            assert await end_jobs(past.database, [new_end(running)])
    whole = await store.list_history(job, START, 100, 10**6)
    started = ["job.started", "job.output", "job.output"]
    canceled = [*started, "job.canceling", "job.canceled"]
    assert [row.type for row in whole] == [
        "job.queued",
        *started,
        "job.queued",
        *canceled,
        "job.queued",
        *started,
        "job.succeeded",
    ]
    for place, row in enumerate(whole):
        assert await store.list_history(job, row.position, 100, 10**6) == whole[place + 1 :]
    pages, after = [], START
    while page := await store.list_history(job, after, 2, 10**6):
        pages += page
        after = page[-1].position
    assert pages == whole
