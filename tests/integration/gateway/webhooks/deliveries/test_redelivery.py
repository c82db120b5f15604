"""Redeliveries and test events in the database."""

import asyncio
from uuid import UUID

import pytest

from common import ids
from common.postgres.database import Database
from services.gateway.webhooks.deliveries.store import DeliveryStore
from services.gateway.webhooks.store import NewTest, WebhookStore
from services.notifier.endpoints.store import lock_endpoints
from tests.integration.deliveries import add_due, examine, look_at, subscribe
from tests.integration.notifier.steps import FAILED, GIVEN_UP, OK, Result, Steps
from tests.integration.waiting import until_blocked

OPEN = """
UPDATE endpoints SET failures = 30, failing_since = now(), open_until = now() + interval '1 hour',
                     next_at = now() + interval '1 hour'
"""
PACE = "UPDATE endpoints SET rate_limited_until = now() + interval '1 minute', next_at = now() + interval '1 minute'"


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database)


@pytest.fixture
async def webhook(database: Database, tenant: UUID) -> UUID:
    return (await subscribe(database, tenant)).id


async def redeliver(database: Database, delivery: UUID) -> None:
    async with database.transaction() as connection:
        await DeliveryStore(database).redeliver(connection, delivery)


async def add_test(database: Database, tenant: UUID, webhook: UUID) -> UUID:
    """Add a test event, and return its delivery."""
    async with database.transaction() as connection:
        return await WebhookStore(database).add_test(connection, webhook, tenant, NewTest(ids.new(), b"{}", ""))


@pytest.mark.parametrize(
    ("result", "tries"), [(OK, 0), (GIVEN_UP, 0), (FAILED, 1)], ids=["succeeded", "exhausted", "pending"]
)
async def test_a_redelivery_is_claimed_before_other_deliveries(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps, result: Result, tries: int
) -> None:
    delivery, *others = await add_due(database, tenant, webhook, 2)
    await steps.attempt(result, 1)
    await redeliver(database, delivery)
    state = await look_at(database, delivery)
    assert (state.status, state.attempt, state.finished) == ("pending", 1, False)
    assert len(await DeliveryStore(database).list_attempts([delivery], 10)) == 1  # the earlier one is kept
    first, second = await steps.claim()
    assert [first.id, second.id] == [delivery, *others]
    assert (first.attempt, first.tries) == (2, tries)  # a running schedule goes on; an ended one starts again


async def test_redelivery_does_nothing_while_an_attempt_runs(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    (delivery,) = await add_due(database, tenant, webhook)
    claims = await steps.claim()
    before = await look_at(database, delivery)
    await redeliver(database, delivery)
    state = await look_at(database, delivery)
    assert (state.attempt, state.leased, (state.waits or 0) > 0) == (before.attempt, True, True)
    assert await steps.record(claims, OK) == [True]
    assert (await look_at(database, delivery)).status == "succeeded"


async def test_an_open_circuit_lets_only_the_redelivery_through(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    delivery, *_ = await add_due(database, tenant, webhook, 3)
    await steps.attempt(GIVEN_UP, 1)
    await database.fetch(OPEN)
    assert await steps.claim() == []
    await redeliver(database, delivery)
    (claim,) = await steps.claim()
    assert claim.id == delivery
    assert await steps.claim() == []
    await steps.record([claim], FAILED)
    assert ((await examine(database, webhook)).opens or 0) > 200  # the circuit stays open


async def test_the_rate_limit_applies_to_redeliveries_and_tests(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    (delivery,) = await add_due(database, tenant, webhook)
    await steps.attempt(GIVEN_UP)
    await database.fetch(PACE)
    await redeliver(database, delivery)
    await add_test(database, tenant, webhook)
    assert await steps.claim() == []
    assert ((await examine(database, webhook)).next or 0) > 30


async def test_a_test_goes_first_even_if_the_circuit_is_open(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    waiting = await add_due(database, tenant, webhook, 2)
    await database.fetch(OPEN)
    delivery = await add_test(database, tenant, webhook)
    (claim,) = await steps.claim()
    assert (claim.id, claim.event_type, claim.job_id) == (delivery, "webhook.test", None)
    await steps.record([claim], OK)
    assert (await examine(database, webhook))[:3] == (0, None, None)
    assert [each.id for each in await steps.claim()] == waiting


@pytest.mark.parametrize(("result", "status"), [(OK, "succeeded"), (GIVEN_UP, "exhausted")])
async def test_a_disabled_subscription_can_be_tested(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps, result: Result, status: str
) -> None:
    await database.fetch("UPDATE webhooks SET disabled_at = now(), disabled_reason = 'gone'")
    delivery = await add_test(database, tenant, webhook)
    assert [claim.id for claim in await steps.attempt(result)] == [delivery]
    assert (await look_at(database, delivery)).status == status


async def test_a_waiting_lock_sees_that_the_subscription_was_disabled(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    store, (delivery,) = DeliveryStore(database), await add_due(database, tenant, webhook)

    async def is_disabled() -> bool | None:
        async with database.transaction() as connection:
            locked = await store.lock(connection, delivery, tenant)
            return None if locked is None else locked.disabled

    assert await is_disabled() is False
    async with database.transaction() as connection:
        await lock_endpoints(connection, [webhook])
        asking = asyncio.create_task(is_disabled())
        await until_blocked(database)
        await connection.execute("UPDATE webhooks SET disabled_at = now(), disabled_reason = 'gone'")
    assert await asking is True
