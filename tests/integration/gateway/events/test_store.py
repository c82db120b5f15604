"""Pages of a job's history."""

from uuid import UUID

from common.postgres.database import Database
from services.gateway.events.store import START, EventPosition, EventStore
from tests.integration.jobs import submit

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
