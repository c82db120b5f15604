"""The end of a job is recorded once, with its event and wake-up, and only under the current claim."""

import asyncio
from typing import Literal
from uuid import UUID

import asyncpg
import pytest

from common import ids
from common.event_types import number_event
from common.job_states import Failure, Status
from common.jobs.end import end_jobs
from common.jobs.new_event import NewEvent
from common.jobs.requeue import requeue_jobs
from common.postgres.database import Database
from services.dispatcher.results.store import AttemptStart, Step
from tests.integration.jobs import (
    TRACEPARENT,
    claim,
    look,
    make_claimable,
    make_due,
    new_end,
    new_requeue,
    submit,
    trace,
)
from tests.integration.stores import Stores


@pytest.fixture
def stores(database: Database) -> Stores:
    return Stores(database)


async def test_an_end_is_recorded_with_its_outputs_and_event(database: Database, stores: Stores, tenant: UUID) -> None:
    job = await claim(database, await submit(database, tenant))
    end = new_end(job, outputs=b'[{"name":"y"}]', version="2", inference_ms=1.5)
    assert await end_jobs(database, [end])
    state = await look(database, job.id)
    assert (state.status, state.lease_until, state.worker) == (Status.SUCCEEDED, None, "w")
    assert await trace(database, job.id) == (["job.succeeded"], [b'[{"name":"y"}]'])


async def test_an_old_claim_records_nothing(database: Database, stores: Stores, tenant: UUID) -> None:
    old = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(old)])
    await make_due(database, old.id)
    new = await claim(database, old.id)
    assert new.claim == old.claim + 1
    before = await look(database, old.id)
    assert await end_jobs(database, [new_end(old)]) == set()
    assert (await look(database, old.id))._replace(now=before.now) == before
    assert await trace(database, old.id) == ([], [])


async def test_an_old_claim_records_nothing_after_its_attempt_was_given_back(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    old = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(old, given_back=True)])
    await make_due(database, old.id)
    new = await claim(database, old.id)
    assert new.attempt == old.attempt
    assert await end_jobs(database, [new_end(old)]) == set()
    assert await end_jobs(database, [new_end(new)])


async def test_an_old_claim_stores_no_streamed_response(database: Database, stores: Stores, tenant: UUID) -> None:
    old = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(old)])
    new = await claim(database, old.id)
    await stores.results.add_steps([Step(job.id, job.claim, 1, b"[]") for job in (old, new)])
    assert [row["claim"] for row in await database.fetch("SELECT claim FROM job_steps")] == [new.claim]


@pytest.mark.parametrize("was", ["running", "queued"])
async def test_an_end_in_the_wrong_state_records_nothing(
    database: Database, stores: Stores, tenant: UUID, was: Literal["running", "queued"]
) -> None:
    job = await claim(database, await submit(database, tenant))
    if was == "running":
        await requeue_jobs(database, [new_requeue(job)])
    assert await end_jobs(database, [new_end(job, Status.FAILED, was=was)]) == set()
    assert await trace(database, job.id) == ([], [])


async def test_only_a_job_that_is_being_canceled_can_end_canceled(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    job = await claim(database, await submit(database, tenant))
    assert await end_jobs(database, [new_end(job, Status.CANCELED)]) == set()
    assert await trace(database, job.id) == ([], [])
    await database.fetch("UPDATE jobs SET status = 'canceling' WHERE id = $1", job.id)
    assert len(await end_jobs(database, [new_end(job, Status.CANCELED)])) == 1


async def test_a_second_end_records_nothing(database: Database, stores: Stores, tenant: UUID) -> None:
    job = await claim(database, await submit(database, tenant))
    assert await end_jobs(database, [new_end(job)])
    assert await end_jobs(database, [new_end(job, Status.FAILED)]) == set()
    assert (await look(database, job.id)).status is Status.SUCCEEDED
    assert await trace(database, job.id) == (["job.succeeded"], [b"[]"])


async def test_only_one_of_concurrent_ends_is_recorded(database: Database, stores: Stores, tenant: UUID) -> None:
    job = await claim(database, await submit(database, tenant))
    ended = await asyncio.gather(*(end_jobs(database, [new_end(job)]) for _ in range(6)))
    assert sum(map(len, ended)) == 1
    assert await trace(database, job.id) == (["job.succeeded"], [b"[]"])


async def test_one_call_ends_many_jobs_in_different_ways(database: Database, stores: Stores, tenant: UUID) -> None:
    jobs = [await claim(database, await submit(database, tenant)) for _ in range(3)]
    stale = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(stale)])
    waiting = await submit(database, tenant)
    expired = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(expired)])
    ends = [
        new_end(jobs[2], Status.FAILED, failure=Failure("broken", "for good", False)),
        new_end(stale),
        new_end(expired, Status.EXPIRED, was="queued"),
        new_end(jobs[0], outputs=b"[0]"),
        new_end(jobs[1], outputs=b"[1]"),
    ]
    assert len(await end_jobs(database, ends)) == 4
    assert (await trace(database, jobs[0].id)).outputs == [b"[0]"]
    assert (await trace(database, jobs[1].id)).outputs == [b"[1]"]
    failed = await look(database, jobs[2].id)
    assert (failed.status, failed.error_code) == (Status.FAILED, "broken")
    assert (await look(database, expired.id)).status is Status.EXPIRED
    assert (await look(database, stale.id)).status is Status.QUEUED
    assert (await look(database, waiting)).status is Status.QUEUED


@pytest.mark.parametrize("stale_first", [True, False])
async def test_an_old_claim_loses_to_the_new_one_in_the_same_call(
    database: Database, stores: Stores, tenant: UUID, stale_first: bool
) -> None:
    old = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(old)])
    await make_due(database, old.id)
    new = await claim(database, old.id)
    ends = [new_end(old, Status.FAILED), new_end(new, outputs=b"[1]")]
    assert await end_jobs(database, ends if stale_first else ends[::-1]) == {ends[1].event.id}
    assert (await look(database, old.id)).status is Status.SUCCEEDED
    assert await trace(database, old.id) == (["job.succeeded"], [b"[1]"])


async def test_a_job_that_ends_twice_in_one_call_ends_once(database: Database, stores: Stores, tenant: UUID) -> None:
    """A sweeper reclaims a lapsed job just as its own dispatcher gets the result."""
    job = await claim(database, await submit(database, tenant))
    assert len(await end_jobs(database, [new_end(job, Status.FAILED), new_end(job)])) == 1
    events, outputs = await trace(database, job.id)
    status = (await look(database, job.id)).status
    assert events == [f"job.{status}"]
    assert len(outputs) == (status is Status.SUCCEEDED)


async def test_an_invalid_end_makes_the_whole_call_record_nothing(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    good, bad = [await claim(database, await submit(database, tenant)) for _ in range(2)]
    with pytest.raises(asyncpg.PostgresError):
        await end_jobs(database, [new_end(good), new_end(bad, Status.FAILED, failure=Failure("a\x00", "", True))])
    assert (await look(database, good.id)).status is Status.PROCESSING
    assert await trace(database, good.id) == ([], [])


async def test_a_start_is_recorded_only_while_its_claim_holds(database: Database, stores: Stores, tenant: UUID) -> None:
    """After the end, or in a later attempt, it would come too late."""
    ended, again = [await claim(database, await submit(database, tenant)) for _ in range(2)]
    starts = [AttemptStart(job, NewEvent(ids.new(), "job.started", 1, b"{}", TRACEPARENT)) for job in (ended, again)]
    await end_jobs(database, [end := new_end(ended)])
    assert await requeue_jobs(database, [new_requeue(again)])
    await make_claimable(database)
    later = await claim(database, again.id)
    await stores.results.record_starts(starts)
    start = NewEvent(ids.new(), "job.started", number_event("job.started", later.claim), b"{}", TRACEPARENT)
    await stores.results.record_starts([AttemptStart(later, start)])
    found = await database.fetch("SELECT id, sequence FROM events ORDER BY sequence")
    assert [tuple(each) for each in found] == [(each.id, each.sequence) for each in (end.event, start)]


async def test_an_event_of_a_running_job_changes_no_state(database: Database, stores: Stores, tenant: UUID) -> None:
    job = await claim(database, await submit(database, tenant))
    started = new_end(job, Status.FAILED).event
    assert job.started_at is not None
    await stores.results.record_starts([AttemptStart(job, started)])
    assert (await look(database, job.id)).status is Status.PROCESSING
    assert (await trace(database, job.id)).events == [started.type]
    assert ids.parse(ids.Kind.EVENT, ids.encode(ids.Kind.EVENT, started.id)) == started.id
