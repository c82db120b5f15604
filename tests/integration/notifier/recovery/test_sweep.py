"""Recovery: failed deliveries of a period are sent again, oldest first, in batches."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common import ids
from common.postgres.database import Database
from services.gateway.http.validation.timestamps import EARLIEST, LATEST
from services.gateway.webhooks.store import RecoveryRow, WebhookStore
from services.notifier.endpoints.store import lock_endpoints
from services.notifier.recovery import sweep as module
from tests.integration.deliveries import add_due, examine, look_at, subscribe
from tests.integration.notifier.steps import FAILED, GIVEN_UP, OK, Steps
from tests.integration.waiting import until_blocked

BATCH = 3
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database, rate=BATCH)


@pytest.fixture
async def webhook(database: Database, tenant: UUID) -> UUID:
    return (await subscribe(database, tenant)).id


async def add_recovery(
    database: Database, webhook: UUID, since: datetime = LONG_AGO, until: datetime | None = None
) -> UUID:
    async with database.transaction() as connection:
        return (await WebhookStore(database).add_recovery(connection, ids.new(), webhook, since, until)).id


async def find(database: Database, tenant: UUID, webhook: UUID, recovery: UUID) -> RecoveryRow:
    found = await WebhookStore(database).find_recovery(recovery, webhook, tenant)
    assert found is not None
    return found


async def tick(database: Database, steps: Steps) -> bool:
    """Run the next step, as if a second had passed."""
    await database.fetch("UPDATE recoveries SET next_at = now() WHERE next_at IS NOT NULL")
    return await steps.recovery.advance()


async def exhaust_all(database: Database, steps: Steps, webhook: UUID) -> None:
    """Exhaust every delivery of an endpoint, and keep its circuit closed."""
    while await steps.attempt(GIVEN_UP):
        await forget_failures(database, webhook)


async def forget_failures(database: Database, webhook: UUID) -> None:
    change = "UPDATE endpoints SET failures = 0, failing_since = NULL, open_until = NULL WHERE id = $1"
    await database.fetch(change, webhook)


async def test_each_failed_delivery_is_sent_once_oldest_first(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    deliveries = await add_due(database, tenant, webhook, 8)
    assert [claim.id for claim in await steps.attempt(OK, 1)] == deliveries[:1]
    await exhaust_all(database, steps, webhook)
    recovery = await add_recovery(database, webhook)
    sent: list[list[UUID]] = []
    while await tick(database, steps):
        claims = await steps.attempt(GIVEN_UP)
        assert {claim.tries for claim in claims} <= {0}  # the schedule starts again
        sent.append([claim.id for claim in claims])
        await forget_failures(database, webhook)
    assert sent == [deliveries[1:4], deliveries[4:7], deliveries[7:]]
    assert (await find(database, tenant, webhook, recovery))[4:6] == (7, True)


async def test_it_continues_where_another_notifier_stopped(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Steps(database, rate=BATCH)
    monkeypatch.setattr(module, "TICK_SECONDS", 60.0)  # the pause after a batch; none is over by itself here
    await add_due(database, tenant, webhook, 5)
    await exhaust_all(database, steps, webhook)
    recovery = await add_recovery(database, webhook)
    assert await tick(database, steps)
    await steps.attempt(OK)
    assert (await find(database, tenant, webhook, recovery))[4:6] == (3, False)
    assert not await other.recovery.advance()  # not due yet
    assert await tick(database, other)
    assert len(await other.attempt(OK)) == 2
    assert (await find(database, tenant, webhook, recovery))[4:6] == (5, True)
    assert not await tick(database, other)


async def test_only_deliveries_created_in_the_period_are_sent(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    deliveries = await add_due(database, tenant, webhook, 4)
    await exhaust_all(database, steps, webhook)
    now = datetime.now(UTC)
    times = [now + timedelta(seconds=seconds) for seconds in (-30, -20, -10, 0)]
    for delivery, at in zip(deliveries, times, strict=True):
        await database.fetch("UPDATE deliveries SET created_at = $2 WHERE id = $1", delivery, at)
    await add_recovery(database, webhook, times[1], times[3])
    assert await tick(database, steps)
    statuses = [(await look_at(database, each)).status for each in deliveries]
    assert statuses == ["exhausted", "pending", "pending", "exhausted"]


async def test_a_delivery_that_waits_for_its_next_attempt_is_tried_now(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    deliveries = await add_due(database, tenant, webhook, 3)
    await steps.attempt(FAILED, 1)
    await steps.claim(1)  # in flight: left alone
    await add_recovery(database, webhook)
    assert await tick(database, steps)
    states = [await look_at(database, each) for each in deliveries]
    assert [(state.attempt, state.tries, state.leased) for state in states] == [
        (1, 1, False),
        (1, 0, True),
        (0, 0, False),
    ]
    assert (states[0].waits or 0) <= 0
    assert (states[1].waits or 0) > 0


async def test_a_new_delivery_waits_behind_one_batch_at_most(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    old = await add_due(database, tenant, webhook, 6)
    await exhaust_all(database, steps, webhook)
    await add_recovery(database, webhook)
    assert await tick(database, steps)
    assert await tick(database, steps)  # the first three are not sent yet
    assert [(await look_at(database, each)).status for each in old] == ["pending"] * 3 + ["exhausted"] * 3
    (new,) = await add_due(database, tenant, webhook)
    assert new in [claim.id for claim in await steps.claim(BATCH + 1)]


async def test_it_waits_for_a_disabled_subscription_and_for_an_open_circuit(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    await add_due(database, tenant, webhook, 2)
    await exhaust_all(database, steps, webhook)
    await add_recovery(database, webhook)
    await database.fetch("UPDATE webhooks SET disabled_at = now(), disabled_reason = 'failing'")
    assert not await tick(database, steps)
    await database.fetch("UPDATE webhooks SET disabled_at = NULL, disabled_reason = NULL")
    await database.fetch(
        "UPDATE endpoints SET failures = 30, failing_since = now(), open_until = now() + interval '1 minute'"
    )
    assert await tick(database, steps)
    assert await steps.claim() == []
    assert (await examine(database, webhook)).next == pytest.approx(60, abs=20)


async def test_test_events_are_not_sent_again(database: Database, tenant: UUID, webhook: UUID, steps: Steps) -> None:
    await add_due(database, tenant, webhook)
    await database.fetch("UPDATE deliveries SET event_type = 'webhook.test'")
    await steps.attempt(GIVEN_UP)
    recovery = await add_recovery(database, webhook)
    assert await tick(database, steps)
    assert (await find(database, tenant, webhook, recovery))[4:6] == (0, True)


async def test_no_period_is_too_long(database: Database, tenant: UUID, webhook: UUID, steps: Steps) -> None:
    await add_due(database, tenant, webhook)
    await exhaust_all(database, steps, webhook)
    await add_recovery(database, webhook, EARLIEST, LATEST)
    assert await tick(database, steps)
    assert len(await steps.claim()) == 1


async def test_a_recovery_and_the_deletion_of_its_subscription_do_not_deadlock(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    """Both lock the endpoint first, so the recovery holds nothing that the deletion waits for."""
    await add_due(database, tenant, webhook)
    await exhaust_all(database, steps, webhook)
    await add_recovery(database, webhook)
    store = WebhookStore(database)
    async with database.transaction() as connection:
        assert await store.lock(connection, webhook, tenant)
        recovering = asyncio.create_task(steps.recovery.advance())
        await until_blocked(database)
        await store.delete(connection, webhook)
    assert await recovering
    assert not await steps.recovery.advance()
    assert await steps.claim() == []


async def test_two_notifiers_advance_a_recovery_once(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    await add_due(database, tenant, webhook, BATCH + 1)
    await exhaust_all(database, steps, webhook)
    recovery = await add_recovery(database, webhook)
    async with database.transaction() as connection:
        await lock_endpoints(connection, [webhook])
        advancing = [asyncio.create_task(Steps(database, rate=BATCH).recovery.advance()) for _ in range(2)]
        await until_blocked(database, 2)  # both have found it
    assert await asyncio.gather(*advancing) == [True, True]
    assert (await find(database, tenant, webhook, recovery)).recovered == BATCH
