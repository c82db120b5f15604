"""Who waits for a twin, or took its result, has its responses, too."""

from uuid import UUID

import pytest

from common.job_states import Status
from common.jobs.job import JobToRun
from common.jobs.promote import promote_jobs
from common.jobs.requeue import requeue_jobs
from common.postgres.database import Database
from services.dispatcher.results.store import Step
from services.gateway.events.store import START, EventStore
from services.gateway.jobs.actions.erasure import Eraser
from tests.integration.jobs import new_requeue, take
from tests.integration.reuse import Sharers
from tests.integration.stores import Stores


@pytest.fixture
async def sharers(database: Database, tenant: UUID) -> Sharers:
    sharers = Sharers(database, tenant)
    await sharers.offer()
    return sharers


@pytest.fixture
def store(database: Database) -> EventStore:
    return EventStore(database)


async def respond(database: Database, job: JobToRun, number: int) -> None:
    await Stores(database).results.add_steps([Step(job.id, job.claim, 2 * number, b"[%d]" % number)])


async def list_types(store: EventStore, job: UUID) -> list[str]:
    return [row.type for row in await store.list_history(job, START, 100, 2**20)]


async def test_a_late_joiner_has_the_responses_so_far_and_the_later_ones(sharers: Sharers, store: EventStore) -> None:
    await sharers.submit()
    (twin,) = await take(sharers.database)
    await respond(sharers.database, twin, 1)
    joiner = (await sharers.submit()).row.id
    before = (await store.find_snapshots([joiner]))[joiner]
    assert before.twin == twin.id
    assert await list_types(store, joiner) == ["job.queued", "job.started", "job.output"]
    await respond(sharers.database, twin, 2)
    after = (await store.find_snapshots([joiner]))[joiner]
    assert after != before
    rows = await store.list_history(joiner, START, 100, 2**20)
    assert [row.body for row in rows[2:]] == [b"[1]", b"[2]"]
    assert rows[0].at == rows[1].at  # the twin started before
    assert all(row.is_shared for row in rows)
    assert await store.read_response(joiner, rows[2].position) == b"[1]"
    assert len(await store.list_history(joiner, rows[2].position, 100, 2**20)) == 1


async def test_a_next_twin_goes_on_after_the_responses_of_the_last(sharers: Sharers, store: EventStore) -> None:
    for _ in range(3):
        joiner = (await sharers.submit()).row.id
    (twin,) = await take(sharers.database)
    await respond(sharers.database, twin, 1)
    seen = (await store.list_history(joiner, START, 100, 2**20))[-1].position
    await sharers.end(twin, status=Status.FAILED, outputs=None)
    (twin,) = await take(sharers.database)
    await respond(sharers.database, twin, 1)
    rows = await store.list_history(joiner, seen, 100, 2**20)
    assert [(row.type, row.attempt) for row in rows] == [("job.started", 2), ("job.output", None)]


async def test_each_attempt_of_a_twin_begins_anew_and_only_the_last_one_is_its_result(
    sharers: Sharers, store: EventStore
) -> None:
    await sharers.submit()
    joiner = (await sharers.submit()).row.id
    for attempt in (1, 2):
        (twin,) = await take(sharers.database)
        await respond(sharers.database, twin, 1)
        rows = await store.list_history(joiner, START, 100, 2**20)
        assert [(row.type, row.attempt) for row in rows[-2:]] == [("job.started", attempt), ("job.output", None)]
        assert len(rows) == 1 + 2 * attempt
        if attempt == 1:
            await requeue_jobs(sharers.database, [new_requeue(twin)])
            assert len(await promote_jobs(sharers.database, 10)) == 1
    await sharers.end(twin)
    hit = (await sharers.submit()).row.id
    for job in (joiner, hit):
        assert await list_types(store, job) == ["job.queued", "job.output", "job.succeeded"]


async def test_who_took_a_result_has_its_responses_before_its_end(sharers: Sharers, store: EventStore) -> None:
    await sharers.submit()
    joiner = (await sharers.submit()).row.id
    (twin,) = await take(sharers.database)
    await respond(sharers.database, twin, 1)
    await sharers.end(twin)
    hit = (await sharers.submit()).row.id
    for job in (joiner, hit):
        assert await list_types(store, job) == ["job.queued", "job.output", "job.succeeded"]
    await Eraser(sharers.database).erase(sharers.tenant, twin.id)
    assert await list_types(store, hit) == ["job.queued", "job.succeeded"]
