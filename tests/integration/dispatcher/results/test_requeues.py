"""Jobs go back to the queue, become due, expire and are abandoned."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common.job_states import Failure, Priority, Status
from common.jobs.end import end_jobs
from common.jobs.expire import find_expired
from common.jobs.promote import promote_jobs
from common.jobs.requeue import requeue_jobs
from common.jobs.rescue import Beside, find_abandoned, find_beside, find_overdue
from common.postgres.database import Database
from common.rabbitmq.messages import JobsQueued, QueuedJob
from services.dispatcher.maintenance.reconciler.store import WaitingQueue, find_waiting_queues
from services.dispatcher.triton.model_version import ModelVersion
from services.gateway.jobs.store import JobStore
from tests.integration.jobs import LEASE, TRACEPARENT, claim, lapse, look, make_due, new_end, new_requeue, submit, take
from tests.integration.stores import Stores


@pytest.fixture
async def stores(database: Database) -> Stores:
    stores = Stores(database)
    await stores.models.save_models([(ModelVersion("echo", "1", False, 0, 1, [], []), True)])
    return stores


async def test_a_requeued_job_waits_out_its_delay(database: Database, stores: Stores, tenant: UUID) -> None:
    job = await claim(database, await submit(database, tenant))
    assert await requeue_jobs(database, [new_requeue(job, delay=30.0)]) == {job.id}
    state = await look(database, job.id)
    assert (state.status, state.attempt, state.claim, state.lease_until) == (Status.QUEUED, 1, 1, None)
    assert state.error_code == "inference_failed"
    assert state.run_at == state.scheduled_at
    assert timedelta(seconds=25) < state.run_at - state.now <= timedelta(seconds=30)
    assert await take(database) == []


async def test_giving_an_attempt_back_lowers_the_attempt_but_not_the_claim(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    job = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(job, given_back=True, interruptions=1)])
    state = await look(database, job.id)
    assert (state.attempt, state.claim, state.interruptions) == (0, 1, 1)
    await make_due(database, job.id)
    again = await claim(database, job.id)
    assert (again.attempt, again.claim, again.interruptions) == (1, 2, 1)


async def test_a_stopped_worker_is_not_an_interruption(database: Database, stores: Stores, tenant: UUID) -> None:
    job = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(job, given_back=True)])
    state = await look(database, job.id)
    assert (state.attempt, state.interruptions) == (0, 0)


async def test_a_refused_first_attempt_is_not_a_start(database: Database, stores: Stores, tenant: UUID) -> None:
    """So the job may still expire. A job that has run may not."""
    refused = await claim(database, await submit(database, tenant, expires_in=1000.0))
    interrupted = await claim(database, await submit(database, tenant, expires_in=1000.0))
    tried = await claim(database, await submit(database, tenant, expires_in=1000.0))
    await requeue_jobs(database, [new_requeue(tried)])
    await make_due(database, tried.id)
    tried = await claim(database, tried.id)
    backs = [new_requeue(job, given_back=True, refused=True) for job in (refused, tried)]
    await requeue_jobs(database, [*backs, new_requeue(interrupted, given_back=True, interruptions=1)])
    await database.fetch("UPDATE jobs SET expires_at = now()")
    assert [job.id for job, _ in await find_expired(database, 10)] == [refused.id]


async def test_a_fallback_gets_one_attempt_and_no_further_fallback(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    job = await claim(database, await submit(database, tenant, max_attempts=1, version="3", fallback_model="small"))
    await requeue_jobs(database, [new_requeue(job, fallback="small")])
    state = await look(database, job.id)
    assert (state.model, state.attempt, state.max_attempts, state.fallback_model) == ("small", 1, 2, None)
    await make_due(database, job.id)
    again = await claim(database, job.id)
    assert (again.model, again.version, again.attempt) == ("small", None, 2)


async def test_an_early_fallback_drops_the_remaining_attempts(database: Database, stores: Stores, tenant: UUID) -> None:
    job = await claim(database, await submit(database, tenant, max_attempts=5, fallback_model="small"))
    await requeue_jobs(database, [new_requeue(job, fallback="small")])
    assert (await look(database, job.id)).max_attempts == 2


async def test_an_old_claim_requeues_nothing(database: Database, stores: Stores, tenant: UUID) -> None:
    old = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(old)])
    await make_due(database, old.id)
    new = await claim(database, old.id)
    assert await requeue_jobs(database, [new_requeue(old, given_back=True)]) == set()
    state = await look(database, old.id)
    assert (state.status, state.attempt, state.claim) == (Status.PROCESSING, 2, new.claim)
    await end_jobs(database, [new_end(new)])
    assert await requeue_jobs(database, [new_requeue(new)]) == set()


@pytest.mark.parametrize("stale_first", [True, False])
async def test_an_old_claim_loses_to_the_new_one_in_the_same_call(
    database: Database, stores: Stores, tenant: UUID, stale_first: bool
) -> None:
    old = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(old)])
    await make_due(database, old.id)
    new = await claim(database, old.id)
    backs = [new_requeue(old, given_back=True), new_requeue(new, delay=100.0)]
    await requeue_jobs(database, backs if stale_first else backs[::-1])
    state = await look(database, old.id)
    assert (state.attempt, state.interruptions) == (2, 0)
    assert state.run_at - state.now > timedelta(seconds=90)


async def test_only_lapsed_leases_are_found_abandoned(database: Database, stores: Stores, tenant: UUID) -> None:
    other = await claim(database, await submit(database, tenant))
    job = await claim(database, await submit(database, tenant, metadata=b"{}"))
    await lapse(database, job.id)
    assert [lease.job_id for lease in await find_overdue(database, LEASE / 2, 10)] == [job.id]
    assert [lease.job_id for lease in await find_overdue(database, LEASE, 10)] == [job.id, other.id]
    ((found, now),) = await find_abandoned(database, [job.id, other.id], 10)
    assert (found.id, found.claim, found.metadata) == (job.id, job.claim, b"{}")
    assert abs(now - datetime.now(UTC)) < timedelta(minutes=1)


async def test_a_suspect_is_found_first_and_with_all_jobs_of_its_dispatcher(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    first, suspect, running = [await claim(database, await submit(database, tenant)) for _ in range(3)]
    for job in (first, suspect):
        await lapse(database, job.id)
    await database.fetch(
        "UPDATE jobs SET probation = 30, lease_until = now() - interval '1 ms' WHERE id = $1", suspect.id
    )
    ((found, _),) = await find_abandoned(database, [first.id, suspect.id], 1)
    assert found.id == suspect.id
    beside = await find_beside(database, [suspect.worker, "another"])
    starts = {Beside(job.worker, tenant, job.started_at) for job in (first, suspect, running)}
    assert {*beside} == starts
    assert await find_beside(database, ["another"]) == []


async def test_only_queued_jobs_expire(database: Database, stores: Stores, tenant: UUID) -> None:
    await submit(database, tenant)
    await submit(database, tenant, expires_in=1000.0)
    job = await submit(database, tenant, expires_in=1000.0)
    running = await claim(database, await submit(database, tenant, expires_in=1000.0))
    for each in (job, running.id):
        await database.fetch("UPDATE jobs SET expires_at = now() WHERE id = $1", each)
    assert [found.id for found, _ in await find_expired(database, 10)] == [job]


async def test_a_scheduled_job_becomes_claimable_when_it_is_due(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    job = await submit(database, tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    assert await promote_jobs(database, 10) == []
    assert await take(database) == []
    await make_due(database, job)
    (wake_up,) = await promote_jobs(database, 10)
    assert (wake_up.message, wake_up.routing_key) == (JobsQueued([QueuedJob(tenant, job)]), "job.normal.echo")
    assert await promote_jobs(database, 10) == []
    assert [job.id for job in await take(database)] == [job]


async def test_a_waiting_job_is_not_written(database: Database, stores: Stores, tenant: UUID) -> None:
    await stores.models.save_models([(ModelVersion("echo", "1", False, 0, 1, [], []), True)])
    job = await submit(database, tenant)
    version = "SELECT xmin FROM jobs WHERE id = $1"
    before = await database.fetch(version, job)
    (waiting,) = await find_waiting_queues(database, 0.0, 10)
    assert waiting == WaitingQueue("echo", Priority.NORMAL, [QueuedJob(tenant, job)], [TRACEPARENT], known=True)
    assert await promote_jobs(database, 10) == []
    assert await database.fetch(version, job) == before


async def test_a_running_job_gets_no_wake_up(database: Database, stores: Stores, tenant: UUID) -> None:
    await claim(database, await submit(database, tenant))
    assert await promote_jobs(database, 10) == []


FULL, AWAY = (Failure(code, "not now", True) for code in ("triton_queue_full", "triton_unavailable"))


async def test_refused_attempts_in_a_row_share_a_row(database: Database, stores: Stores, tenant: UUID) -> None:
    job = await submit(database, tenant)

    async def attempt(failure: Failure, *, refused: bool = True) -> None:
        claimed = await claim(database, job)
        back = new_requeue(claimed, failure=failure, given_back=refused, refused=refused)
        assert await requeue_jobs(database, [back]) == {job}

    for failure in (FULL, FULL, FULL, AWAY, FULL):
        await attempt(failure)
    await attempt(FULL, refused=False)
    await attempt(FULL)
    found = await JobStore(database).list_attempts(job, tenant)
    assert [(each.attempt, each.status, each.error_code, each.count) for each in found] == [
        (1, "returned", "triton_queue_full", 3),
        (1, "returned", "triton_unavailable", 1),
        (1, "returned", "triton_queue_full", 1),
        (1, "failed", "triton_queue_full", 1),
        (2, "returned", "triton_queue_full", 1),
    ]
    assert all(each.started_at < each.finished_at for each in found)


async def test_a_list_of_attempts_has_a_limit(database: Database, tenant: UUID) -> None:
    job = await submit(database, tenant)
    await database.fetch(
        """
        INSERT INTO job_attempts (job_id, claim, attempt, model, worker, due_at, started_at, finished_at, status)
        SELECT $1, claim, claim, 'echo', 'w', now(), now(), now(), 'failed' FROM generate_series(1, 1100) claim
        """,
        job,
    )
    found = await JobStore(database).list_attempts(job, tenant)
    assert [each.attempt for each in found] == list(range(101, 1101))
