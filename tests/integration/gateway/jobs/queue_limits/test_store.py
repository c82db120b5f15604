"""Counting the jobs of queues in the database."""

from uuid import UUID

import pytest

from common import ids
from common.job_states import Status
from common.jobs.cancel import cancel_queued, lock_job
from common.jobs.end import end_jobs
from common.jobs.erase import erase_job, lock_events
from common.jobs.new_event import NewEvent
from common.jobs.requeue import requeue_jobs
from common.jobs.retry import retry_jobs
from common.postgres.database import Database
from services.gateway.auth.store import KeyStore
from services.gateway.jobs.queue_limits.store import QueueLimitStore
from services.gateway.jobs.schemas import SubmitJob
from tests.integration.jobs import TRACEPARENT, add_tenant, claim, new_end, new_requeue, submit

REQUEST = SubmitJob(model="echo", inputs={"x": [[1.0]]})


@pytest.fixture
def store(database: Database) -> QueueLimitStore:
    return QueueLimitStore(database)


async def count(store: QueueLimitStore, tenant: UUID, per_tenant: int = 100, per_model: int = 100) -> tuple[int, int]:
    """Count the tenant's waiting jobs and the model's."""
    found = await store.count_queues([tenant, "echo"], per_tenant, per_model)
    return found[tenant].jobs, found["echo"].jobs


async def test_a_job_counts_while_it_waits(database: Database, store: QueueLimitStore, tenant: UUID) -> None:
    stranger = await add_tenant(database, "stranger")
    jobs = [await submit(database, tenant) for _ in range(3)]
    await submit(database, tenant, model="other")
    await submit(database, stranger)
    assert (await count(store, tenant), await count(store, stranger)) == ((4, 4), (1, 4))
    running = await claim(database, jobs[0])
    assert await count(store, tenant) == (3, 3)
    await requeue_jobs(database, [new_requeue(running, given_back=True)])
    assert await count(store, tenant) == (4, 4)
    await end_jobs(database, [new_end(await claim(database, jobs[1]))])
    assert await count(store, tenant) == (3, 3)


async def test_jobs_are_counted_up_to_the_limit(database: Database, store: QueueLimitStore, tenant: UUID) -> None:
    for _ in range(4):
        await submit(database, tenant)
    assert await count(store, tenant, per_tenant=3, per_model=2) == (3, 2)
    for own, jobs in [(2, 2), (0, 0), (None, 3)]:
        await KeyStore(database).set_max_queued(tenant, own, actor="test")
        found = await store.count_queues([tenant], 3, 2)
        assert (found[tenant].jobs, found[tenant].limit) == (jobs, 3 if own is None else own)


async def test_the_inputs_of_a_job_count_while_it_waits(
    database: Database, store: QueueLimitStore, tenant: UUID
) -> None:
    """The bytes follow from the rows, so they are right after whatever happens to a job."""
    stranger = await add_tenant(database, "stranger")
    each = {"tensors": bytes(1000), "parameters": b"{}", "metadata": b'{"a": 1}'}  # 1010 bytes

    async def count_bytes() -> int:
        found = await store.count_queues([tenant, "echo"], 100, 100)
        assert found["echo"].bytes == 0
        return found[tenant].bytes

    jobs = sorted([await submit(database, tenant, **each) for _ in range(5)])
    await submit(database, stranger, **each)
    assert await count_bytes() == 5050
    running = await claim(database, jobs[0])
    assert (running.id, await count_bytes()) == (jobs[0], 4040)
    await requeue_jobs(database, [new_requeue(running, given_back=True)])
    assert await count_bytes() == 5050
    for job in jobs[:3]:
        await end_jobs(database, [new_end(await claim(database, job), Status.FAILED)])
    assert await count_bytes() == 2020
    async with database.transaction() as connection:
        locked = await lock_job(connection, jobs[3], tenant)
        assert locked is not None
        event = NewEvent(ids.new(), "job.canceled", 0, b"{}", TRACEPARENT)
        await cancel_queued(connection, jobs[3], locked.now, event)
        await erase_job(connection, jobs[0], await lock_events(connection, jobs[0]))
    assert await count_bytes() == 1010
    await retry_jobs(database, tenant, jobs, [Status.FAILED], None)  # all but the erased one
    assert await count_bytes() == 3030
