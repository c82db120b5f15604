"""The rows of a job's trace."""

from uuid import UUID

from common import ids
from common.job_states import Failure, Status
from common.jobs.end import end_jobs
from common.jobs.requeue import requeue_jobs
from common.jobs.retry import retry_jobs
from common.postgres.database import Database
from services.dispatcher.results.store import Step
from services.gateway.reports.traces.store import Run, TraceStore
from tests.integration.jobs import add_tenant, claim, new_end, new_requeue, submit
from tests.integration.stores import Stores

FULL = Failure("triton_queue_full", "full", True)


async def list_runs(database: Database, job: UUID, tenant: UUID, limit: int = 100) -> list[Run]:
    """Return the attempts, oldest first."""
    return (await TraceStore(database).list_runs(job, tenant, limit))[::-1]


async def refuse(database: Database, job: UUID) -> None:
    """Run an attempt that Triton refuses."""
    refused = new_requeue(await claim(database, job), failure=FULL, refused=True, given_back=True)
    await requeue_jobs(database, [refused])


async def test_each_attempt_is_listed_with_the_retry_before_it(database: Database, tenant: UUID) -> None:
    store = TraceStore(database)
    job = await submit(database, tenant)
    for _ in range(3):
        await refuse(database, job)
    await end_jobs(database, [new_end(await claim(database, job), Status.FAILED)])
    assert await retry_jobs(database, tenant, [job], [Status.FAILED], None)
    waiting = await store.find_job(job, tenant)
    assert waiting is not None
    assert waiting.retried_at == waiting.row.run_at
    await claim(database, job)
    running = await store.find_job(job, tenant)
    assert running is not None
    assert running.retried_at is None
    runs = await list_runs(database, job, tenant)
    assert [(run.attempt, run.count, run.status, run.error_code, run.is_first) for run in runs] == [
        (1, 3, "returned", "triton_queue_full", True),
        (1, 1, "failed", "inference_failed", False),
        (1, 1, "processing", None, False),
    ]
    assert [run.finished_at is None for run in runs] == [False, False, True]
    assert [run.retried_at for run in runs] == [None, None, waiting.retried_at]
    assert [run.status for run in await list_runs(database, job, tenant, 1)] == ["processing"]


async def test_each_attempt_keeps_when_it_was_due(database: Database, tenant: UUID) -> None:
    """A requeue moves `run_at` of the job to the next attempt."""
    job, store = await submit(database, tenant), TraceStore(database)
    due = []
    for _ in range(2):
        found = await store.find_job(job, tenant)
        assert found is not None
        due.append(found.row.run_at)
        await requeue_jobs(database, [new_requeue(await claim(database, job), delay=0.0)])
        await database.fetch("UPDATE jobs SET scheduled_at = NULL")
    await end_jobs(database, [new_end(await claim(database, job), Status.FAILED)])
    found = await store.find_job(job, tenant)
    assert found is not None
    assert [run.due_at for run in await list_runs(database, job, tenant)] == [*due, found.row.run_at]
    assert await retry_jobs(database, tenant, [job], [Status.FAILED], None)
    assert [run.due_at for run in await list_runs(database, job, tenant)] == [*due, found.row.run_at]


async def test_a_retry_of_a_job_that_never_ran_is_found(database: Database, tenant: UUID) -> None:
    job, store = await submit(database, tenant), TraceStore(database)
    await database.fetch("UPDATE jobs SET status = 'canceled', generation = 1, finished_at = now()")
    assert await retry_jobs(database, tenant, [job], [Status.CANCELED], None)
    waiting = await store.find_job(job, tenant)
    assert waiting is not None
    for _ in range(2):
        await refuse(database, job)
    (run,) = await list_runs(database, job, tenant)
    assert (run.count, run.is_first, run.retried_at) == (2, False, waiting.row.run_at)


async def test_outputs_of_a_streaming_model_are_no_retries(database: Database, tenant: UUID) -> None:
    claimed = await claim(database, await submit(database, tenant))
    job = claimed.id
    await Stores(database).results.add_steps([Step(job, claimed.claim, 1, b"[]")])
    found = await TraceStore(database).find_job(job, tenant)
    assert found is not None
    assert (found.retried_at, [run.retried_at for run in await list_runs(database, job, tenant)]) == (None, [None])


async def test_the_jobs_of_others_are_not_found(database: Database, tenant: UUID) -> None:
    job, stranger = await submit(database, tenant), await add_tenant(database, "stranger")
    await claim(database, job)
    assert await TraceStore(database).find_job(job, stranger) is None
    assert await list_runs(database, job, stranger) == []
    assert await TraceStore(database).find_job(ids.new(), tenant) is None
