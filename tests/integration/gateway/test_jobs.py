"""A job as its tenant finds it."""

from uuid import UUID

import pytest

from common import ids
from common.database import Database
from common.jobs import Priority, Status
from services.dispatcher.store import End
from services.dispatcher.store import Store as DispatcherStore
from services.gateway.store import Store
from tests.integration.deliveries import add_delivery, subscribe
from tests.integration.jobs import add_tenant, claim, new_end, submit

CALLBACK = {"callback_url": "https://a", "callback_events": ["job.succeeded"]}


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def end(database: Database, job: UUID, status: Status = Status.SUCCEEDED) -> End:
    ended = new_end(await claim(database, job), status)
    assert await DispatcherStore(database).end_jobs([ended])
    return ended


async def webhook_status(store: Store, job: UUID, tenant: UUID) -> str:
    found = await store.find_job(job, tenant)
    assert found is not None
    return found.webhook_status


async def test_an_ended_job_is_found_with_its_outputs(database: Database, store: Store, tenant: UUID) -> None:
    job = await submit(database, tenant, metadata=b'{"a":1}')
    await end(database, job)
    found = await store.find_job(job, tenant)
    assert found is not None
    assert (found.row.status, found.outputs, found.row.metadata) == (Status.SUCCEEDED, b"[]", b'{"a":1}')
    assert found.queue_position is None


async def test_another_tenants_job_is_not_found(database: Database, store: Store, tenant: UUID) -> None:
    job = await submit(database, tenant)
    stranger = await add_tenant(store, "stranger")
    assert await store.find_job(job, stranger) is None
    assert await store.find_job(ids.new(), tenant) is None


async def test_nobody_asked_for_webhooks(database: Database, store: Store, tenant: UUID) -> None:
    job = await submit(database, tenant)
    assert await webhook_status(store, job, tenant) == "none"
    await end(database, job)
    assert await webhook_status(store, job, tenant) == "none"


async def test_a_callback_is_pending_until_its_last_event_is_delivered(
    database: Database, store: Store, tenant: UUID
) -> None:
    job = await submit(database, tenant, **CALLBACK)
    assert await webhook_status(store, job, tenant) == "pending"
    event = (await end(database, job)).event.id
    assert await webhook_status(store, job, tenant) == "pending"  # ended, and not yet fanned out
    await add_delivery(database, event)
    assert await webhook_status(store, job, tenant) == "pending"
    await database.fetch("UPDATE deliveries SET status = 'succeeded', next_at = NULL, finished_at = now()")
    assert await webhook_status(store, job, tenant) == "succeeded"


async def test_a_callback_that_does_not_ask_for_this_end_is_none(
    database: Database, store: Store, tenant: UUID
) -> None:
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
async def test_subscriptions_count_as_well_as_the_callback(
    database: Database, store: Store, tenant: UUID, deliveries: list[str], status: str
) -> None:
    job = await submit(database, tenant, **CALLBACK)
    event = (await end(database, job)).event.id
    await add_delivery(database, event, None, deliveries[0])
    await add_delivery(database, event, (await subscribe(database, tenant)).id, deliveries[1])
    assert await webhook_status(store, job, tenant) == status


async def test_waiting_jobs_are_counted_by_model_and_priority(database: Database, store: Store, tenant: UUID) -> None:
    await submit(database, tenant)
    await submit(database, tenant)
    await submit(database, tenant, priority=Priority.LOW)
    await claim(database, await submit(database, tenant))
    assert await store.count_queued() == {("echo", "normal"): 2, ("echo", "low"): 1}
