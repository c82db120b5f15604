"""Pages of a job's history."""

from uuid import UUID

from common.job_states import Status
from common.postgres.database import Database
from services.dispatcher.results.store import Step
from services.dispatcher.results.stream_recorder import STRIDE
from services.gateway.events.store import START, EventPosition, EventStore
from tests.integration.jobs import claim, submit
from tests.integration.world import World

ADD = """
INSERT INTO job_steps (job_id, claim, number, type, outputs)
SELECT $1, 1, number, 'job.output', convert_to(repeat('x', size), 'UTF8')
FROM unnest($2::integer[]) WITH ORDINALITY AS t(size, number)
"""
PAGE = 1000  # bytes


async def test_a_response_over_the_size_of_a_page_is_left_out(database: Database, tenant: UUID) -> None:
    store = EventStore(database)
    job = await submit(database, tenant)
    await database.fetch(ADD, job, [PAGE, PAGE - 1, PAGE + 1, 1])
    (_, first) = await store.list_history(job, START, 10, PAGE)
    assert (first.body, first.lacks_body) == (b"x" * PAGE, False)
    (_, large) = await store.list_history(job, first.position, 10, PAGE)
    assert (large.body, large.size, large.lacks_body) == (None, PAGE + 1, True)
    assert await store.read_response(job, large.position) == b"x" * (PAGE + 1)
    (last,) = await store.list_history(job, large.position, 10, PAGE)
    assert last.body == b"x"
    assert await store.read_response(job, EventPosition(9, 9)) is None


async def test_responses_after_a_cancel_request_follow_it(database: Database, tenant: UUID) -> None:
    store, world, job = EventStore(database), World(database, tenant), await submit(database, tenant)
    claimed = await claim(database, job)

    async def respond(number: int) -> None:
        await world.stores.results.add_steps([Step(job, claimed.claim, number * STRIDE, b"[]")])

    async def read(after: EventPosition) -> tuple[list[str], EventPosition]:
        rows = await store.list_history(job, after, 10, PAGE)
        return [row.type for row in rows], rows[-1].position if rows else after

    await respond(1)
    _, position = await read(START)
    assert await world.cancel(job) is Status.CANCELING
    seen, position = await read(position)
    assert seen == ["job.canceling"]
    await respond(2)
    (before,) = (await store.find_snapshots([job])).values()
    seen, position = await read(position)
    assert seen == ["job.output"]
    await respond(3)
    (after,) = (await store.find_snapshots([job])).values()
    assert after != before, "a waiter sees the change"
    assert (await read(position))[0] == ["job.output"]
    everything, _ = await read(START)
    assert everything[2:] == ["job.output", "job.canceling", "job.output", "job.output"]
