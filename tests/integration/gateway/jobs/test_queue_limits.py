"""Counting the jobs of queues in the database."""

import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common.postgres.database import Database
from services.dispatcher.results.store import ResultStore
from services.gateway.auth.store import KeyStore
from services.gateway.jobs.queue_limit_store import Queue, QueueLimitStore
from services.gateway.jobs.schemas import SubmitJob
from tests.integration.jobs import add_tenant, claim, new_end, new_requeue, submit

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
    dispatcher = ResultStore(database)
    await dispatcher.requeue_jobs([new_requeue(running, given_back=True)])
    assert await count(store, tenant) == (4, 4)
    await dispatcher.end_jobs([new_end(await claim(database, jobs[1]))])
    assert await count(store, tenant) == (3, 3)


async def test_jobs_are_counted_up_to_the_limit(database: Database, store: QueueLimitStore, tenant: UUID) -> None:
    for _ in range(4):
        await submit(database, tenant)
    assert await count(store, tenant, per_tenant=3, per_model=2) == (3, 2)
    for own, jobs in [(2, 2), (0, 0), (None, 3)]:
        await KeyStore(database).set_max_queued(tenant, own)
        found = await store.count_queues([tenant], 3, 2)
        assert found[tenant] == (jobs, 3 if own is None else own)


async def test_due_jobs_are_counted(database: Database, store: QueueLimitStore, tenant: UUID) -> None:
    stranger = await add_tenant(database, "stranger")
    at = datetime.now(UTC)
    for owner, model, ahead in [(tenant, "echo", 600), (tenant, "echo", 1200), (stranger, "ocr", 300)]:
        await submit(database, owner, model=model, run_at=at + timedelta(seconds=ahead))
    for model in ("echo", "ocr"):
        await submit(database, tenant, model=model)
    await claim(database, await submit(database, stranger))  # no longer waits
    queues: list[Queue] = [tenant, stranger, "echo", "ocr", "idle"]
    counted = await store.count_due(queues, 10)
    spent = (datetime.now(UTC) - at).total_seconds()
    expected: dict[Queue, tuple[int, float]] = {tenant: (2, 600), stranger: (0, 300), "echo": (1, 600), "ocr": (1, 300)}
    assert {queue: due.jobs for queue, due in counted.items()} == {queue: jobs for queue, (jobs, _) in expected.items()}
    for queue, due in counted.items():
        assert due.next_in is not None
        assert due.whole
        assert expected[queue][1] - spent <= due.next_in <= expected[queue][1]
    for due in (await store.count_due(queues, 1)).values():
        assert due.jobs + (due.next_in is not None) == 1
        assert not due.whole


async def test_ended_jobs_are_counted_by_tenant_and_model(
    database: Database, store: QueueLimitStore, tenant: UUID
) -> None:
    stranger = await add_tenant(database, "stranger")
    dispatcher, began = ResultStore(database), time.monotonic()
    for owner, model, ago in [(tenant, "echo", 10), (tenant, "ocr", 20), (stranger, "echo", 30), (tenant, "echo", 61)]:
        job = await claim(database, await submit(database, owner, model=model))
        await dispatcher.end_jobs([new_end(job)])
        await database.fetch(
            "UPDATE jobs SET finished_at = now() - make_interval(secs => $2) WHERE id = $1", job.row.id, ago
        )
    ended = await store.count_ended(10)
    spent = time.monotonic() - began
    expected = {tenant: (2, 20), stranger: (1, 30), "echo": (2, 30), "ocr": (1, 20)}
    assert {queue: jobs for queue, (jobs, _) in ended.items()} == {queue: jobs for queue, (jobs, _) in expected.items()}
    for queue, (_, seconds) in ended.items():
        assert expected[queue][1] <= seconds <= expected[queue][1] + spent
    assert (await store.count_ended(1)).keys() == {tenant, "echo"}
