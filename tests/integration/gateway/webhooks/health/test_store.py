"""The health of subscriptions, as the database measures it."""

from uuid import UUID

import pytest

from common.postgres.database import Database
from services.gateway.webhooks.health.store import Health, HealthStore, Sample, Window
from services.notifier.delivery_attempts.result import AttemptError, AttemptResult
from services.notifier.delivery_attempts.retry_schedule import Succeeded
from tests.integration.deliveries import add_due, add_event, subscribe
from tests.integration.notifier.steps import FAILED, GIVEN_UP, OK, Result, Steps

OPEN = "UPDATE endpoints SET failures = 30, failing_since = now(), open_until = now() + interval '1 hour'"
CLOSE = "UPDATE endpoints SET failures = 0, failing_since = NULL, next_at = now()"
BEGIN_CANCELING = "UPDATE endpoints SET cancel_before = clock_timestamp()"
AGE = """
UPDATE deliveries
SET created_at = created_at - $1 * interval '1 hour', started_at = started_at - $1 * interval '1 hour',
    finished_at = finished_at - $1 * interval '1 hour'
"""
RATHER_OLD, TOO_OLD = 2, 25  # hours
DUE_AGAIN = "UPDATE deliveries SET next_at = now() - interval '1 minute' WHERE next_at IS NOT NULL"
MANY, ATTEMPTS = 1_000, 10
SLOW: Result = (AttemptResult(status_code=204, seconds=2.0), Succeeded())
REFUSED: Result = (AttemptResult(error=AttemptError.CONNECT_REFUSED, seconds=9.0), FAILED[1])


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database)


@pytest.fixture
async def webhook(database: Database, tenant: UUID) -> UUID:
    return (await subscribe(database, tenant)).id


async def measure(database: Database, webhook: UUID, deliveries: int = MANY, attempts: int = ATTEMPTS) -> Health:
    return (await HealthStore(database).measure([webhook], Sample(deliveries, attempts)))[webhook]


async def test_a_subscription_without_deliveries_has_no_numbers(database: Database, webhook: UUID) -> None:
    assert await measure(database, webhook) == Health(
        webhook_id=webhook, open=False, failing_since=None, pending=0, oldest_due_at=None
    )


async def test_ends_and_attempts_are_counted(database: Database, tenant: UUID, webhook: UUID, steps: Steps) -> None:
    """Latencies are those of attempts that succeeded."""
    other = (await subscribe(database, tenant)).id
    await add_due(database, tenant, webhook, 5)
    await steps.attempt(REFUSED, 2)
    await database.fetch(DUE_AGAIN)
    for result in (OK, OK, SLOW, GIVEN_UP):
        await steps.attempt(result, 1)
    await add_due(database, tenant, other)
    await steps.attempt(REFUSED)
    health = await measure(database, webhook)
    assert health.hour == health.day
    assert health.hour[:4] == (3, 1, 7, 4)  # the last step tried one a second time, which is pending
    assert health.hour.durations == [250.0, 2000.0]
    assert (health.open, health.failing_since is not None, health.pending) == (False, True, 1)
    assert health.counted_since is None
    both = await HealthStore(database).measure([webhook, other], Sample(MANY, ATTEMPTS))
    assert both[webhook].hour == health.hour
    assert both[other].hour == Window(0, 0, 1, 1, None)


@pytest.mark.parametrize(("hours", "counted"), [(RATHER_OLD, 1), (TOO_OLD, 0)])
async def test_only_recent_deliveries_are_counted(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps, hours: int, counted: int
) -> None:
    await add_due(database, tenant, webhook)
    await steps.attempt(OK)
    await database.fetch(AGE, hours)
    health = await measure(database, webhook)
    assert (health.hour.attempts, health.day.attempts, health.day.succeeded) == (0, counted, counted)


async def test_only_the_newest_deliveries_are_read(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    await add_due(database, tenant, webhook, 3)
    await steps.attempt(GIVEN_UP)
    await database.fetch(CLOSE)
    await add_due(database, tenant, webhook, 2)
    await steps.attempt(OK)
    health = await measure(database, webhook, 2)
    assert (health.hour.succeeded, health.hour.failed) == (2, 0)
    assert health.counted_since is not None
    assert (await measure(database, webhook, 6)).counted_since is None


async def test_only_the_latest_attempts_are_read(database: Database, tenant: UUID, webhook: UUID, steps: Steps) -> None:
    await add_due(database, tenant, webhook)
    for result in (FAILED, FAILED, FAILED, OK):
        await steps.attempt(result)
        await database.fetch(DUE_AGAIN)
        await database.fetch(CLOSE)
    assert (await measure(database, webhook)).hour[:4] == (1, 0, 4, 3)
    assert (await measure(database, webhook, attempts=2)).hour[:4] == (1, 0, 3, 2)


async def test_pending_deliveries_are_counted_up_to_a_limit(database: Database, tenant: UUID, webhook: UUID) -> None:
    """Also those that no notifier has taken. The oldest is due since its first due time, not since 1970."""
    await add_due(database, tenant, webhook, 3)
    await add_event(database, tenant)
    health = await measure(database, webhook)
    assert (health.pending, health.oldest_due_at is not None) == (4, True)
    assert (await measure(database, webhook, 3)).pending == 3
    await database.fetch("UPDATE deliveries SET next_at = to_timestamp(0) WHERE next_at IS NOT NULL")
    health = await measure(database, webhook)
    assert health.oldest_due_at is not None
    assert health.oldest_due_at.year > 1970


async def test_what_is_due_later_is_pending_but_not_due(database: Database, tenant: UUID, webhook: UUID) -> None:
    await add_due(database, tenant, webhook, 2)
    await database.fetch("UPDATE deliveries SET next_at = now() + interval '1 hour'")
    health = await measure(database, webhook)
    assert (health.pending, health.oldest_due_at) == (2, None)


async def test_deliveries_to_be_canceled_are_not_pending(database: Database, tenant: UUID, webhook: UUID) -> None:
    await add_due(database, tenant, webhook, 2)
    await database.fetch(BEGIN_CANCELING)
    health = await measure(database, webhook)
    assert (health.pending, health.oldest_due_at) == (0, None)


async def test_an_open_circuit_is_shown(database: Database, webhook: UUID) -> None:
    await database.fetch(OPEN)
    health = await measure(database, webhook)
    assert (health.open, health.failing_since is not None) == (True, True)
