"""What a long backlog costs when its subscription ends: a mark at once, and the rest in small batches."""

import asyncio
from uuid import UUID

import pytest

from common import ids
from common.jobs.cancel import lock_job
from common.jobs.erase import erase_job, lock_events
from common.postgres.database import Database
from services.gateway.jobs.store import JobStore
from services.gateway.webhooks.deliveries.store import DeliveryFilter, DeliveryStore
from services.gateway.webhooks.store import NewTest, WebhookStore
from services.notifier.cleanup.store import delete_unused_endpoints
from services.notifier.ended_subscriptions.sweep import BATCH
from services.notifier.new_deliveries.store import NewDeliveryStore
from tests.integration.deliveries import add_due, add_event, examine, look_at, subscribe
from tests.integration.forgetting import forget
from tests.integration.jobs import add_tenant
from tests.integration.notifier.steps import FAILED, GONE, LEASE, Steps
from tests.integration.waiting import DEADLINE, until

MANY = 2 * BATCH + 100
PROBING = "UPDATE endpoints SET failures = 30, failing_since = now() - interval '6 days', open_until = now()"


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database)


@pytest.fixture
async def webhook(database: Database, tenant: UUID) -> UUID:
    return (await subscribe(database, tenant)).id


async def count(database: Database, status: str) -> int:
    """Count the rows with a status."""
    return len(await database.fetch("SELECT id FROM deliveries WHERE status = $1", status))


async def count_visible(database: Database, tenant: UUID, webhook: UUID, status: str) -> int:
    """Count the deliveries that a client sees with a status, up to MANY."""
    filters = DeliveryFilter(status=status)  # type: ignore[arg-type]
    return len(await DeliveryStore(database).list_by_webhook(tenant, webhook, None, filters, MANY))


async def delete(database: Database, tenant: UUID, webhook: UUID) -> None:
    store = WebhookStore(database)
    async with database.transaction() as connection:
        assert await store.lock(connection, webhook, tenant)
        await store.delete(connection, webhook)


async def enable(database: Database, webhook: UUID) -> None:
    async with database.transaction() as connection:
        await WebhookStore(database).enable(connection, webhook)


async def disable(steps: Steps) -> None:
    """Let the receiver of the only due subscription answer 410."""
    (claim,) = await steps.claim(1)
    assert await steps.record([claim], GONE) == [True]


async def is_canceling(database: Database, webhook: UUID) -> bool:
    found = await database.fetch("SELECT cancel_before FROM endpoints WHERE id = $1", webhook)
    return found[0]["cancel_before"] is not None


@pytest.mark.parametrize(
    ("before", "result"),
    [("SELECT", GONE), (PROBING, GONE), (PROBING, FAILED)],
    ids=["410", "410 under an open circuit", "five days of failures"],
)
async def test_disabling_only_marks_a_long_backlog(
    database: Database, tenant: UUID, webhook: UUID, before: str, result: tuple[object, object]
) -> None:
    steps = Steps(database)
    await add_due(database, tenant, webhook, MANY)
    await database.fetch(before)
    (claim,) = await steps.claim(1)
    await steps.record([claim], result)  # type: ignore[arg-type]
    waiting = MANY - (result is GONE)
    assert (await count(database, "canceled"), await count(database, "pending")) == (0, waiting)
    assert await count_visible(database, tenant, webhook, "canceled") == waiting  # at once
    assert await count_visible(database, tenant, webhook, "pending") == 0
    assert await steps.claim() == []
    assert (await examine(database, webhook)).next is None  # so nobody looks at it again and again
    batches = []
    while canceled := await steps.ended_subscriptions.advance():
        batches.append(canceled)
    assert batches == [BATCH, BATCH, waiting - 2 * BATCH]
    assert await count(database, "pending") == 0
    assert await count_visible(database, tenant, webhook, "canceled") == waiting
    assert not await is_canceling(database, webhook)


async def test_another_tenants_attempts_are_recorded_beside_a_410(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    await add_due(database, tenant, webhook, MANY)
    other = await add_tenant(database, "other")
    neighbour = (await subscribe(database, other)).id
    await add_due(database, other, neighbour)
    claims = {claim.endpoint_id: claim for claim in await steps.claim(2)}
    recorded = await asyncio.gather(steps.record([claims[webhook]], GONE), steps.record([claims[neighbour]], FAILED))
    assert [*recorded] == [[True], [True]]
    assert await count(database, "canceled") == 0
    assert (await look_at(database, claims[neighbour].id)).tries == 1


async def test_a_deleted_subscription_is_gone_before_its_backlog(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    store, deliveries = WebhookStore(database), DeliveryStore(database)
    waiting = await add_due(database, tenant, webhook, MANY)
    new = await add_event(database, tenant)
    claims = await steps.claim(2)
    (job,) = {claim.job_id for claim in claims}
    assert job is not None
    await delete(database, tenant, webhook)
    assert len(await database.fetch("SELECT id FROM deliveries")) == MANY + 1
    assert await store.find(webhook, tenant) is None
    assert await store.list(tenant, None, 10) == []
    assert await deliveries.find(waiting[-1], tenant) is None
    assert await deliveries.list_by_job(tenant, job, None, None, 10) == []
    async with database.transaction() as connection:
        assert await deliveries.lock(connection, waiting[-1], tenant) is None
    found = await JobStore(database).find_job(job, tenant)
    assert found is not None
    assert found.webhook_status == "none"

    assert await steps.take(new) == []
    assert await steps.claim() == []
    assert await steps.record(claims[:1], FAILED) == [False]
    assert await database.fetch("SELECT 1 FROM events WHERE job_id IS NULL") == []
    batches = []
    while deleted := await steps.ended_subscriptions.advance():
        batches.append(deleted)
    assert batches == [BATCH, BATCH, MANY + 1 - 2 * BATCH]
    assert await steps.claim() == []
    assert await delete_unused_endpoints(database, 10) == 1
    assert await database.fetch("SELECT id FROM endpoints") == []


async def test_subscriptions_take_turns(database: Database, tenant: UUID, webhook: UUID, steps: Steps) -> None:
    await add_due(database, tenant, webhook, MANY)
    other = await add_tenant(database, "other")
    small = (await subscribe(database, other)).id
    await add_due(database, other, small, 3)
    await delete(database, tenant, webhook)
    await delete(database, other, small)
    assert await steps.ended_subscriptions.advance() == BATCH + 3


async def test_it_works_until_nothing_is_left(database: Database, tenant: UUID, webhook: UUID, steps: Steps) -> None:
    await add_due(database, tenant, webhook, MANY)
    await delete(database, tenant, webhook)
    working = asyncio.create_task(steps.ended_subscriptions.run())

    async def is_empty() -> bool:
        return not await database.fetch("SELECT id FROM deliveries")

    await until(is_empty, "the deliveries are deleted")
    working.cancel()


async def test_enabling_lets_new_deliveries_go_when_the_old_are_canceled(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    old = await add_due(database, tenant, webhook, BATCH + 5)
    await disable(steps)
    await steps.ended_subscriptions.advance()
    await enable(database, webhook)
    event = await add_event(database, tenant)
    assert await steps.take(event) == []  # four are still to be canceled
    assert await steps.claim() == []
    assert (await examine(database, webhook)).next is None
    woken = steps.woken
    assert await steps.ended_subscriptions.advance() == 4
    assert steps.woken > woken
    assert [claim.event_type for claim in await steps.claim()] == ["job.succeeded"]
    assert {(await look_at(database, each)).status for each in old[1:]} == {"canceled"}


async def test_recovery_waits_until_all_is_canceled(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    old = await add_due(database, tenant, webhook, 5)
    await disable(steps)
    await enable(database, webhook)
    async with database.transaction() as connection:
        since = await connection.fetchval("SELECT now() - interval '1 day'")
        await WebhookStore(database).add_recovery(connection, ids.new(), webhook, since, None)
    assert not await steps.recovery.advance()
    await steps.ended_subscriptions.advance()
    assert await steps.recovery.advance()
    assert {claim.id for claim in await steps.claim()} == set(old)


async def test_tests_and_redeliveries_do_not_wait(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    old = await add_due(database, tenant, webhook, 5)
    await disable(steps)
    async with database.transaction() as connection:
        test = await WebhookStore(database).add_test(connection, webhook, tenant, NewTest(ids.new(), b"{}", ""))
    assert [claim.id for claim in await steps.claim()] == [test]
    await enable(database, webhook)
    async with database.transaction() as connection:
        assert await DeliveryStore(database).lock(connection, old[2], tenant)
        await DeliveryStore(database).redeliver(connection, old[2])
    assert await steps.ended_subscriptions.advance() == 3
    assert [claim.id for claim in await steps.claim()] == [old[2]]


async def test_a_claim_that_lapses_later_is_canceled(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    """A notifier died after another one disabled the subscription."""
    await add_due(database, tenant, webhook, 3)
    lost, claim = await steps.claim(2)
    await steps.record([claim], GONE)
    assert await steps.ended_subscriptions.advance() == 1
    await database.fetch("UPDATE deliveries SET next_at = now(), lease_until = now() WHERE lease_until IS NOT NULL")
    assert await steps.claim() == []
    assert await steps.ended_subscriptions.advance() == 1
    assert (await look_at(database, lost.id)).status == "canceled"
    assert not await is_canceling(database, webhook)


async def test_an_erasure_and_the_deletion_do_not_wait_for_each_other(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    """The deletion skips what the erasure has locked, so they cannot deadlock."""
    await steps.schedule(await add_event(database, tenant))
    await steps.schedule(kept := await add_event(database, tenant))
    (row,) = await database.fetch("SELECT id, job_id FROM events WHERE id <> $1", kept)
    await database.fetch("UPDATE jobs SET status = 'canceled', generation = 1, finished_at = now()")
    await delete(database, tenant, webhook)
    async with database.transaction() as connection, asyncio.timeout(DEADLINE):
        assert await lock_job(connection, row["job_id"], tenant)
        events = await lock_events(connection, row["job_id"])
        assert await steps.ended_subscriptions.advance() == 1
        await erase_job(connection, row["job_id"], events)
    assert await steps.ended_subscriptions.advance() == 0
    assert await database.fetch("SELECT id FROM deliveries") == []


async def test_jobs_are_removed_when_their_deliveries_have_ended(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    await add_due(database, tenant, webhook, 3)
    await database.fetch("UPDATE jobs SET status = 'canceled', generation = 1, finished_at = now() - interval '1 hour'")
    await delete(database, tenant, webhook)
    assert await forget(database) == 1
    assert len(await database.fetch("SELECT FROM jobs")) == 1
    await steps.ended_subscriptions.advance()
    assert await forget(database) == 1
    assert await database.fetch("SELECT FROM jobs") == []


async def test_a_delivery_that_is_taken_while_its_subscription_is_disabled_is_canceled(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    """The notifier that takes it saw the subscription enabled, and commits after all others are canceled."""
    await add_due(database, tenant, webhook)
    event = await add_event(database, tenant)
    async with database.acquire() as connection:
        taking = connection.transaction()
        await taking.start()
        await NewDeliveryStore(connection).schedule({event: ""}, 0.0, LEASE)
        await disable(steps)
        await steps.ended_subscriptions.advance()
        await taking.commit()
    steps.due.add([webhook])
    assert await steps.claim() == []
    await steps.ended_subscriptions.advance()
    assert await count(database, "pending") == 0
