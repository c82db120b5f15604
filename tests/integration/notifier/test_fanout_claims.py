"""A fan-out claims only deliveries that can be sent at once, within the limits of a claim."""

import asyncio
import time
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.postgres.database import Database
from services.notifier.store.claims import Claim, claim_deliveries
from services.notifier.store.endpoints import lock_endpoints, reschedule_endpoints
from tests.integration.deliveries import CALLBACK, add_due, add_event, examine, look_at, subscribe
from tests.integration.notifier.steps import LEASE, OK, Steps
from tests.integration.waiting import until_blocked

CONCURRENCY = 3
NO_LIMIT = 100
TIMES = ("claimed_at", "age", "event_age")


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database, endpoint_concurrency=CONCURRENCY)


async def fan_out(steps: Steps, *events: UUID, limit: int = NO_LIMIT) -> list[Claim]:
    return (await steps.fan_out_and_claim(dict.fromkeys(events, "trace"), limit))[1]


def without_times(claim: Claim) -> dict[str, object]:
    return {name: value for name, value in msgspec.structs.asdict(claim).items() if name not in TIMES}


async def test_its_claims_equal_those_of_the_worker(database: Database, tenant: UUID, steps: Steps) -> None:
    await subscribe(database, tenant, headers=b"encrypted headers")
    await steps.fan_out(await add_event(database, tenant, **CALLBACK))  # from here on the callback's endpoint exists
    await steps.record(await steps.claim(), OK)
    await database.fetch(
        "INSERT INTO old_secrets (id, tenant_id, secret, until) VALUES ($1, $2, 'old', now() + interval '1 hour')",
        *(ids.new(), tenant),
    )
    claims = await fan_out(steps, await add_event(database, tenant, **CALLBACK))
    assert {claim.webhook_id is None: len(claim.secrets) for claim in claims} == {True: 2, False: 1}
    for claim in claims:
        state = await look_at(database, claim.id)
        assert (state.status, state.attempt, state.tries, state.leased) == ("pending", 1, 0, True)
        assert claim.id.version == 7
        assert abs(ids.made_at(claim.id) - time.time()) < 60
        assert 0 < ((await examine(database, claim.endpoint_id)).next or 0) <= LEASE  # so a lapsed claim is found
    assert await steps.claim() == []
    await database.fetch("UPDATE deliveries SET next_at = now(), lease_until = now() WHERE lease_until IS NOT NULL")
    await database.fetch("UPDATE endpoints SET next_at = now()")
    again = {claim.id: without_times(claim) for claim in await steps.claim()}
    assert again == {claim.id: without_times(claim) | {"attempt": 2} for claim in claims}


async def test_an_endpoint_has_no_more_in_flight_than_its_limit(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant)).id
    first = await fan_out(steps, await add_event(database, tenant))
    events = [await add_event(database, tenant) for _ in range(CONCURRENCY)]
    rest = await fan_out(steps, *events)
    assert (len(first), len(rest)) == (1, CONCURRENCY - 1)
    assert await steps.claim() == []
    late = await add_event(database, tenant)
    assert await fan_out(steps, late) == []
    waiting = await database.fetch("SELECT id FROM deliveries WHERE lease_until IS NULL ORDER BY next_at")
    assert await steps.record(first, OK) == [True]
    assert await fan_out(steps, await add_event(database, tenant)) == []  # other deliveries wait
    (claim,) = await steps.claim()
    assert claim.id == waiting[0]["id"]
    assert 0 < ((await examine(database, webhook)).next or 0) <= LEASE


async def test_no_more_are_claimed_than_the_limit(database: Database, tenant: UUID, steps: Steps) -> None:
    webhooks = {(await subscribe(database, tenant)).id for _ in range(2)}
    events = [await add_event(database, tenant) for _ in range(2)]
    claims = await fan_out(steps, *events, limit=2)
    assert {claim.webhook_id for claim in claims} == webhooks  # in turns
    assert {claim.webhook_id for claim in await steps.claim()} == webhooks


@pytest.mark.parametrize(
    ("change", "waits"),
    [
        ("failures = 1, failing_since = now()", False),
        ("failures = 30, failing_since = now(), open_until = now() + interval '1 minute'", True),
        ("rate_limit = 1", False),
        ("rate_limited_until = now() + interval '1 minute', rate_limit = 1", True),
    ],
)
async def test_an_endpoint_with_limits_is_left_to_the_worker(
    database: Database, tenant: UUID, steps: Steps, change: str, waits: bool
) -> None:
    await subscribe(database, tenant)
    await database.fetch(f"UPDATE endpoints SET {change}")  # noqa: S608 -- from the test's own parameters
    assert await fan_out(steps, await add_event(database, tenant)) == []
    assert len(await steps.claim()) == (not waits)


async def test_a_new_delivery_waits_behind_a_due_one(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant)).id
    (due,) = await add_due(database, tenant, webhook)
    assert await fan_out(steps, await add_event(database, tenant)) == []
    assert [claim.id for claim in await steps.claim(1)] == [due]


async def test_concurrent_claims_of_another_notifier_count(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant)).id
    await add_due(database, tenant, webhook, CONCURRENCY)
    event = await add_event(database, tenant)
    async with database.transaction() as connection:
        await lock_endpoints(connection, [webhook])
        fanning_out = asyncio.create_task(fan_out(steps, event))
        await until_blocked(database)
        assert len(await claim_deliveries(connection, [webhook], 100, LEASE, CONCURRENCY)) == CONCURRENCY
        await reschedule_endpoints(connection, [webhook], CONCURRENCY)
    assert await fanning_out == []
    assert await steps.claim() == []
    assert await database.fetch("SELECT 1 FROM deliveries WHERE event_id = $1", event)


async def test_a_backlog_flag_without_a_check_is_ignored(database: Database, tenant: UUID, steps: Steps) -> None:
    """An older notifier does not know the flag: it moves the check and leaves the flag."""
    webhook = (await subscribe(database, tenant)).id
    for ahead in (None, LEASE + 60):
        await database.fetch(
            "UPDATE endpoints SET has_backlog = true, next_at = now() + make_interval(secs => $2) WHERE id = $1",
            webhook,
            ahead,
        )
        assert len(await fan_out(steps, await add_event(database, tenant))) == 1
