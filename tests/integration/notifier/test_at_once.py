"""What is claimed as it is made: only what may be sent at once, and nothing beside the bounds of a claim."""

import asyncio
import time
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.database import Database
from services.notifier.store import QUERIES, Claim
from tests.integration.deliveries import CALLBACK, add_due, add_event, examine, look_at, subscribe
from tests.integration.notifier.steps import LEASE, OK, Steps
from tests.integration.waiting import until_blocked

EACH = 3
ANYWHERE = 100
TIMES = ("claimed_at", "age", "event_age")


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database, each=EACH)


async def fan(steps: Steps, *events: UUID, room: int = ANYWHERE) -> list[Claim]:
    return (await steps.fan(dict.fromkeys(events, "trace"), room))[1]


def untimed(claim: Claim) -> dict[str, object]:
    return {name: value for name, value in msgspec.structs.asdict(claim).items() if name not in TIMES}


async def test_it_is_what_a_claim_would_have_brought(database: Database, tenant: UUID, steps: Steps) -> None:
    await subscribe(database, tenant, headers=b"sealed headers")
    await steps.fan_out(await add_event(database, tenant, **CALLBACK))  # the callback's endpoint is there from now on
    await steps.record(await steps.claim(), OK)
    await database.fetch(
        "INSERT INTO old_secrets (id, tenant_id, secret, until) VALUES ($1, $2, 'old', now() + interval '1 hour')",
        *(ids.new(), tenant),
    )
    claims = await fan(steps, await add_event(database, tenant, **CALLBACK))
    assert {claim.webhook_id is None: len(claim.secrets) for claim in claims} == {True: 2, False: 1}
    for claim in claims:
        state = await look_at(database, claim.id)
        assert (state.status, state.attempt, state.tries, state.leased) == ("pending", 1, 0, True)
        assert claim.id.version == 7
        assert abs(ids.made_at(claim.id) - time.time()) < 60
        assert 0 < ((await examine(database, claim.endpoint_id)).next or 0) <= LEASE  # so one that lapses is found
    assert await steps.claim() == []
    await database.fetch("UPDATE deliveries SET next_at = now(), lease_until = now() WHERE lease_until IS NOT NULL")
    await database.fetch("UPDATE endpoints SET next_at = now()")
    again = {claim.id: untimed(claim) for claim in await steps.claim()}
    assert again == {claim.id: untimed(claim) | {"attempt": 2} for claim in claims}


async def test_an_endpoint_has_no_more_under_way_than_its_share(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant)).id
    first = await fan(steps, await add_event(database, tenant))
    events = [await add_event(database, tenant) for _ in range(EACH)]
    rest = await fan(steps, *events)
    assert (len(first), len(rest)) == (1, EACH - 1)
    assert await steps.claim() == []
    late = await add_event(database, tenant)
    assert await fan(steps, late) == []
    waiting = await database.fetch("SELECT id FROM deliveries WHERE lease_until IS NULL ORDER BY next_at")
    assert await steps.record(first, OK) == [True]
    assert await fan(steps, await add_event(database, tenant)) == []  # others wait
    (claim,) = await steps.claim()
    assert claim.id == waiting[0]["id"]
    assert 0 < ((await examine(database, webhook)).next or 0) <= LEASE


async def test_no_more_are_claimed_than_there_is_room_for(database: Database, tenant: UUID, steps: Steps) -> None:
    webhooks = {(await subscribe(database, tenant)).id for _ in range(2)}
    events = [await add_event(database, tenant) for _ in range(2)]
    claims = await fan(steps, *events, room=2)
    assert {claim.webhook_id for claim in claims} == webhooks  # in turns
    assert {claim.webhook_id for claim in await steps.claim()} == webhooks


@pytest.mark.parametrize(
    ("change", "waits"),
    [
        ("failures = 1, failing_since = now()", False),
        ("failures = 30, failing_since = now(), open_until = now() + interval '1 minute'", True),
        ("rate_limit = 1", False),
        ("paced_until = now() + interval '1 minute', rate_limit = 1", True),
    ],
)
async def test_an_endpoint_with_bounds_of_its_own_is_claimed_for_by_them(
    database: Database, tenant: UUID, steps: Steps, change: str, waits: bool
) -> None:
    await subscribe(database, tenant)
    await database.fetch(f"UPDATE endpoints SET {change}")  # noqa: S608 -- a test's own
    assert await fan(steps, await add_event(database, tenant)) == []
    assert len(await steps.claim()) == (not waits)


async def test_it_waits_behind_what_is_due(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant)).id
    (due,) = await add_due(database, tenant, webhook)
    assert await fan(steps, await add_event(database, tenant)) == []
    assert [claim.id for claim in await steps.claim(1)] == [due]


async def test_what_another_notifier_claims_meanwhile_counts(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant)).id
    await add_due(database, tenant, webhook, EACH)
    event = await add_event(database, tenant)
    async with database.transaction() as connection:
        await steps.store.lock_endpoints(connection, [webhook])
        fanning_out = asyncio.create_task(fan(steps, event))
        await until_blocked(database)
        assert len(await connection.fetch(QUERIES["claim_deliveries"], [webhook], 100, LEASE, EACH)) == EACH
        await steps.store.settle(connection, [webhook], EACH)
    assert await fanning_out == []
    assert await steps.claim() == []
    assert await database.fetch("SELECT 1 FROM deliveries WHERE event_id = $1", event)


async def test_who_is_said_to_be_crowded_without_a_look_is_not(database: Database, tenant: UUID, steps: Steps) -> None:
    """A notifier of before, which knows nothing of it, moves the look and leaves that."""
    webhook = (await subscribe(database, tenant)).id
    for ahead in (None, LEASE + 60):
        await database.fetch(
            "UPDATE endpoints SET crowded = true, next_at = now() + make_interval(secs => $2) WHERE id = $1",
            webhook,
            ahead,
        )
        assert len(await fan(steps, await add_event(database, tenant))) == 1
