"""Recorded attempts: their deliveries' rows, and the health of their endpoints."""

from uuid import UUID

import pytest

from common.postgres.database import Database
from services.gateway.webhooks.deliveries.store import DeliveryStore
from services.notifier.delivery_attempts.recorder import make_record
from services.notifier.delivery_attempts.retry_schedule import Rescheduled
from services.notifier.delivery_attempts.store import OPEN_AFTER, OPEN_SECONDS, record_attempts
from tests.integration.deliveries import add_due, examine, look_at, subscribe
from tests.integration.notifier.steps import FAILED, GIVEN_UP, INTERNAL, OK, Result, Steps


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database, endpoint_concurrency=2)


@pytest.fixture
async def webhook(database: Database, tenant: UUID) -> UUID:
    return (await subscribe(database, tenant)).id


async def list_attempts(database: Database, delivery: UUID) -> list[tuple[object, ...]]:
    found = await DeliveryStore(database).list_attempts([delivery], 100)
    return [(each.number, each.duration_ms, each.status_code, each.error, each.response) for each in found]


async def make_due(database: Database) -> None:
    """Make waiting deliveries due, and end every endpoint's pause."""
    await database.fetch("UPDATE deliveries SET next_at = now() WHERE status = 'pending' AND lease_until IS NULL")
    await database.fetch("UPDATE endpoints SET next_at = now(), open_until = open_until - interval '1 hour'")


async def test_every_counted_attempt_is_recorded_once(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    (delivery,) = await add_due(database, tenant, webhook)
    (claim,) = await steps.attempt(FAILED)
    state = await look_at(database, delivery)
    assert (state.status, state.attempt, state.tries, state.leased, state.finished) == ("pending", 1, 1, False, False)
    assert 30 < (state.waits or 0) <= 60
    assert await steps.record([claim], OK) == [False]  # already recorded
    await make_due(database)
    await steps.attempt(INTERNAL)
    assert (await look_at(database, delivery))[:3] == ("pending", 2, 1)
    await make_due(database)
    await steps.attempt(OK)
    assert (await look_at(database, delivery))[:4] == ("succeeded", 3, 2, None)
    assert await list_attempts(database, delivery) == [(1, 0.0, 500, "http_status", b"oh"), (3, 250.0, 204, None, b"")]


@pytest.mark.parametrize("results", [(GIVEN_UP, FAILED), (FAILED, GIVEN_UP)])
async def test_of_two_results_of_one_claim_only_one_is_recorded(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps, results: tuple[Result, Result]
) -> None:
    (delivery,) = await add_due(database, tenant, webhook)
    (claim,) = await steps.claim()
    async with database.transaction() as connection:
        await record_attempts(connection, [make_record(claim, *result) for result in results])
    assert [number for number, *_ in await list_attempts(database, delivery)] == [1]


async def test_one_batch_may_mix_results(database: Database, tenant: UUID, steps: Steps) -> None:
    webhooks = [(await subscribe(database, tenant)).id for _ in range(3)]
    deliveries = [(await add_due(database, tenant, each))[0] for each in webhooks]
    claims = {claim.id: claim for claim in await steps.claim()}
    for delivery, result in zip(deliveries, (OK, FAILED, GIVEN_UP), strict=True):
        await steps.record([claims[delivery]], result)
    states = [await look_at(database, each) for each in deliveries]
    assert [state.status for state in states] == ["succeeded", "pending", "exhausted"]
    assert [(await examine(database, each)).failures for each in webhooks] == [0, 1, 1]


async def test_a_circuit_opens_after_enough_failures_and_for_longer_each_time(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    await add_due(database, tenant, webhook, 2)
    failures = 0
    while failures < OPEN_AFTER - 1:
        await make_due(database)
        failures += len(await steps.attempt(FAILED))
    health = await examine(database, webhook)
    assert (health.failures, health.opens) == (OPEN_AFTER - 1, None)
    assert -60 < (health.failing_since or 0) < 0
    for seconds in (*OPEN_SECONDS, OPEN_SECONDS[-1]):
        await make_due(database)
        assert len(await steps.attempt(FAILED)) == 1
        health = await examine(database, webhook)
        assert seconds - 5 < (health.opens or 0) <= seconds
        assert (health.next or 0) >= (health.opens or 0)


async def test_one_outage_opens_the_circuit_once(database: Database, tenant: UUID, webhook: UUID) -> None:
    steps = Steps(database, endpoint_concurrency=64)
    await add_due(database, tenant, webhook, 100)
    claims = await steps.claim()
    assert len(claims) == 64
    await steps.record(claims[:30], FAILED)
    assert (await examine(database, webhook)).opens is None
    for some in (claims[30:40], claims[40:44], claims[44:]):
        await steps.record(some, FAILED)
        health = await examine(database, webhook)
        assert (health.failures, (health.opens or 0) <= OPEN_SECONDS[0]) == (OPEN_AFTER, True)
        assert OPEN_SECONDS[0] - 5 < (health.opens or 0)
    assert await steps.claim() == []


async def test_failures_among_successes_open_no_circuit(database: Database, tenant: UUID, webhook: UUID) -> None:
    """One in two attempts fails. Batches of failures are written without the successes that came between them."""
    steps = Steps(database, endpoint_concurrency=64)
    await add_due(database, tenant, webhook, 128)
    for _ in range(2):
        claims = await steps.claim()
        half = len(claims) // 2
        assert half >= OPEN_AFTER
        await steps.record(claims[:half], FAILED)
        assert (await examine(database, webhook)).opens is None
        await steps.record(claims[half:], OK)


async def test_a_success_closes_the_circuit(database: Database, tenant: UUID, webhook: UUID, steps: Steps) -> None:
    await add_due(database, tenant, webhook, 3)
    await database.fetch(
        "UPDATE endpoints SET failures = 30, failing_since = now(), open_until = now() - interval '1 second'"
    )
    assert len(await steps.attempt(OK)) == 1
    assert (await examine(database, webhook))[:3] == (0, None, None)
    assert len(await steps.claim()) == 2


async def test_a_success_behind_an_open_circuit_releases_the_others_at_once(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    await add_due(database, tenant, webhook, 3)
    late, _ = await steps.claim()
    await database.fetch(
        "UPDATE endpoints SET failures = 30, failing_since = now(), open_until = now() + interval '1 minute',"
        " next_at = now() + interval '1 minute'"
    )
    await steps.record([late], OK)
    assert steps.woken == 1
    assert len(await steps.claim()) == 1


async def test_internal_errors_do_not_affect_the_endpoint(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    await add_due(database, tenant, webhook, 2)
    for _ in range(2 * OPEN_AFTER):
        await make_due(database)
        assert len(await steps.attempt(INTERNAL)) == 2
    assert (await examine(database, webhook))[:3] == (0, None, None)


async def test_the_next_check_is_when_the_first_delivery_is_due(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    await add_due(database, tenant, webhook, 2)
    first, second = await steps.claim()
    await steps.record([first], (FAILED[0], Rescheduled(60.0)))
    await steps.record([second], (FAILED[0], Rescheduled(40.0)))
    assert 20 < ((await examine(database, webhook)).next or 0) <= 40
    await make_due(database)
    await steps.attempt(OK, 1)
    await steps.attempt(OK, 1)
    await make_due(database)
    assert await steps.claim() == []
    assert (await examine(database, webhook)).next is None


async def test_the_worker_is_woken_for_a_waiting_delivery(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    await add_due(database, tenant, webhook, 3)
    first, second = await steps.claim()
    await steps.record([first], OK)
    assert steps.woken == 1
    await steps.claim()
    await steps.record([second], OK)
    assert steps.woken == 1  # nothing more is due
