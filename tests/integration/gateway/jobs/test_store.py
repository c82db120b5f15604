"""Finding a job with its outputs and webhook status."""

from uuid import UUID

import pytest

from common import ids
from common.job_states import Status
from common.jobs.end import JobEnd, end_jobs
from common.postgres.database import Database
from services.gateway.jobs.store import JobStore
from tests.integration.deliveries import add_delivery, subscribe
from tests.integration.jobs import add_tenant, claim, new_end, submit

CALLBACK = {"callback_url": "https://a", "callback_events": ["job.succeeded"]}


@pytest.fixture
def store(database: Database) -> JobStore:
    return JobStore(database)


async def end(database: Database, job: UUID, status: Status = Status.SUCCEEDED) -> JobEnd:
    ended = new_end(await claim(database, job), status)
    assert await end_jobs(database, [ended])
    return ended


async def webhook_status(store: JobStore, job: UUID, tenant: UUID) -> str:
    found = await store.find_job(job, tenant)
    assert found is not None
    return found.webhook_status


async def test_an_ended_job_is_found_with_its_outputs(database: Database, store: JobStore, tenant: UUID) -> None:
    job = await submit(database, tenant, metadata=b'{"a":1}')
    await end(database, job)
    found = await store.find_job(job, tenant)
    assert found is not None
    assert (found.row.status, found.outputs, found.row.metadata) == (Status.SUCCEEDED, b"[]", b'{"a":1}')
    assert found.queue_position is None


async def test_another_tenants_job_is_not_found(database: Database, store: JobStore, tenant: UUID) -> None:
    job = await submit(database, tenant)
    stranger = await add_tenant(database, "stranger")
    assert await store.find_job(job, stranger) is None
    assert await store.find_job(ids.new(), tenant) is None


async def test_a_job_without_webhooks_has_status_none(database: Database, store: JobStore, tenant: UUID) -> None:
    job = await submit(database, tenant)
    assert await webhook_status(store, job, tenant) == "none"
    await end(database, job)
    assert await webhook_status(store, job, tenant) == "none"


async def test_a_callback_is_pending_until_its_last_event_is_delivered(
    database: Database, store: JobStore, tenant: UUID
) -> None:
    job = await submit(database, tenant, **CALLBACK)
    assert await webhook_status(store, job, tenant) == "pending"
    await end(database, job)
    assert await webhook_status(store, job, tenant) == "pending"
    await database.fetch(
        "UPDATE deliveries SET status = 'succeeded', next_at = NULL, generation = 1, finished_at = now()"
    )
    assert await webhook_status(store, job, tenant) == "succeeded"


async def test_a_callback_without_this_event_has_status_none(database: Database, store: JobStore, tenant: UUID) -> None:
    job = await submit(database, tenant, **CALLBACK)
    await end(database, job, Status.FAILED)
    assert await webhook_status(store, job, tenant) == "none"


@pytest.mark.parametrize(
    ("deliveries", "status"),
    [
        (["succeeded", "succeeded"], "succeeded"),
        (["succeeded", "pending"], "pending"),
        (["succeeded", "exhausted"], "failed"),
        (["pending", "exhausted"], "failed"),
        (["succeeded", "canceled"], "failed"),
    ],
)
async def test_subscriptions_count_like_callbacks(
    database: Database, store: JobStore, tenant: UUID, deliveries: list[str], status: str
) -> None:
    job = await submit(database, tenant)
    event = (await end(database, job)).event.id
    await add_delivery(database, event, None, deliveries[0])
    await add_delivery(database, event, (await subscribe(database, tenant)).id, deliveries[1])
    assert await webhook_status(store, job, tenant) == status
