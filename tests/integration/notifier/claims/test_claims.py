"""Claims: in turns, within the limits of each endpoint."""

import asyncio
from collections import Counter
from datetime import timedelta
from uuid import UUID

import pytest

from common.postgres.database import Database
from services.notifier.claims.store import ClaimedDelivery
from services.notifier.delivery_attempts.store import OPEN_AFTER
from services.notifier.endpoints.store import lock_endpoints
from tests.integration.deliveries import add_due, examine, look_at, subscribe
from tests.integration.notifier.steps import FAILED, LEASE, OK, Steps
from tests.integration.waiting import DEADLINE

CONCURRENCY = 4


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database, endpoint_concurrency=CONCURRENCY)


def count(claims: list[ClaimedDelivery]) -> Counter[UUID]:
    return Counter(claim.endpoint_id for claim in claims)


async def test_an_endpoint_has_no_more_in_flight_than_its_limit(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant)).id
    deliveries = await add_due(database, tenant, webhook, 10)
    first = await steps.claim()
    assert [claim.id for claim in first] == deliveries[:CONCURRENCY]
    found = await database.fetch_one("SELECT next_at FROM endpoints")
    assert found is not None  # a record may miss what becomes due at that moment, so the next check is soon
    assert found["next_at"] - first[0].claimed_at == timedelta(seconds=1)
    assert await steps.claim() == []
    await steps.record(first[:1], OK)
    assert [claim.id for claim in await steps.claim()] == [deliveries[CONCURRENCY]]


async def test_endpoints_take_turns(database: Database, tenant: UUID, steps: Steps) -> None:
    webhooks = [(await subscribe(database, tenant)).id for _ in range(3)]
    for webhook, waiting in zip(webhooks, (9, 1, 9), strict=True):
        await add_due(database, tenant, webhook, waiting)
    assert count(await steps.claim(3)) == dict.fromkeys(webhooks, 1)
    assert count(await steps.claim(4)) == {webhooks[0]: 2, webhooks[2]: 2}
    assert count(await steps.claim()) == {webhooks[0]: 1, webhooks[2]: 1}


async def test_failures_reduce_the_limit_and_a_success_restores_it(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    webhook = (await subscribe(database, tenant)).id
    await add_due(database, tenant, webhook, 20)
    assert [len(await steps.attempt(FAILED)) for _ in range(3)] == [4, 1, 1]
    await steps.attempt(OK)
    assert len(await steps.claim()) == CONCURRENCY


@pytest.mark.parametrize(("rate_limit", "at_a_time", "pause"), [(30, 3, 0.1), (1, 1, 1.0), (8, 1, 0.125)])
async def test_a_rate_limit_spaces_out_claims(
    database: Database, tenant: UUID, steps: Steps, rate_limit: int, at_a_time: int, pause: float
) -> None:
    webhook = (await subscribe(database, tenant, rate_limit=rate_limit)).id
    await add_due(database, tenant, webhook, 20)
    claims, wait, *_ = await steps.claims.claim_due(100, LEASE, CONCURRENCY)
    assert len(claims) == at_a_time  # a tenth of a second's worth, and at least one
    assert wait == pytest.approx(pause)
    assert await steps.record(claims, OK) == [True] * at_a_time
    found = await database.fetch_one("SELECT next_at FROM endpoints")
    assert found is not None
    assert found["next_at"] - claims[0].claimed_at == timedelta(seconds=pause)


async def test_a_rate_limit_of_0_is_none(database: Database, tenant: UUID, steps: Steps) -> None:
    await add_due(database, tenant, (await subscribe(database, tenant, rate_limit=0)).id, 20)
    assert len(await steps.claim()) == CONCURRENCY
    found = await database.fetch_one("SELECT rate_limited_until FROM endpoints")
    assert found is not None
    assert found["rate_limited_until"] is None


@pytest.mark.parametrize(("failures", "room"), [(0, 12), (1, 6), (2, 3), (3, 1), (19, 1)])
async def test_each_failure_in_a_row_halves_the_limit_of_an_endpoint(
    database: Database, tenant: UUID, failures: int, room: int
) -> None:
    await add_due(database, tenant, (await subscribe(database, tenant)).id, 20)
    await database.fetch(
        "UPDATE endpoints SET failures = $1, failing_since = CASE WHEN $1 > 0 THEN now() END", failures
    )
    assert len(await Steps(database, endpoint_concurrency=12).claim()) == room


async def test_an_open_circuit_allows_one_attempt_when_its_time_is_up(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    webhook = (await subscribe(database, tenant)).id
    await add_due(database, tenant, webhook, 60)
    while (await examine(database, webhook)).failures < OPEN_AFTER:
        assert await steps.attempt(FAILED)
    assert await steps.claim() == []
    steps.due.add([webhook])  # as after a success that was recorded before the circuit opened
    assert await steps.claim() == []
    await end_pause(database, webhook)
    assert len(await steps.claim()) == 1
    assert await steps.claim() == []


async def test_a_lapsed_claim_is_due_again_with_a_new_fence(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant)).id
    (delivery,) = await add_due(database, tenant, webhook)
    (lapsed,) = await steps.claim(lease=0.0)
    (claim,) = await steps.claim()
    assert (claim.id, claim.attempt, claim.tries) == (delivery, 2, 0)
    assert await steps.record([lapsed], OK) == [False]
    assert (await look_at(database, delivery)).leased
    assert await steps.record([claim], OK) == [True]
    assert (await look_at(database, delivery)).status == "succeeded"


async def test_endpoints_locked_by_another_notifier_are_skipped(database: Database, tenant: UUID, steps: Steps) -> None:
    held, free = [(await subscribe(database, tenant)).id for _ in range(2)]
    for webhook in (held, free):
        await add_due(database, tenant, webhook, 2)
    async with database.transaction() as connection:
        await lock_endpoints(connection, [held])
        async with asyncio.timeout(DEADLINE):
            assert count(await steps.claim()) == {free: 2}
    assert count(await steps.claim()) == {held: 2}


async def test_a_claim_uses_the_current_url(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant)).id
    (delivery,) = await add_due(database, tenant, webhook)
    await database.fetch("UPDATE webhooks SET url = 'https://b' WHERE id = $1", webhook)
    (claim,) = await steps.claim()
    assert (claim.url, (await look_at(database, delivery)).url) == ("https://b", "https://b")


async def end_pause(database: Database, webhook: UUID) -> None:
    await database.fetch("UPDATE endpoints SET open_until = now(), next_at = now() WHERE id = $1", webhook)
