"""New deliveries are claimed if they can be sent at once. The others wait for the loop."""

from uuid import UUID

import msgspec
import pytest

from common import ids
from common.postgres.batcher import MAX_BATCH_BYTES
from common.postgres.database import Database
from services.notifier.claims.store import ClaimedDelivery
from services.notifier.claims.tenant_slots import TenantRooms
from services.notifier.delivery_attempts.store import begin_canceling, disable_webhooks
from services.notifier.endpoints.store import lock_endpoints, reschedule_endpoints
from services.notifier.new_deliveries.store import RECEIVERS, NewDeliveryStore
from tests.integration.deliveries import CALLBACK, add_due, add_event, examine, look_at, subscribe
from tests.integration.jobs import add_tenant
from tests.integration.notifier.steps import FAILED, LEASE, OK, Steps

CONCURRENCY = 3
TIMES = ("claimed_at", "age", "event_age")


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database, endpoint_concurrency=CONCURRENCY)


def without_times(claim: ClaimedDelivery) -> dict[str, object]:
    return {name: value for name, value in msgspec.structs.asdict(claim).items() if name not in TIMES}


async def test_new_claims_equal_those_of_the_loop(database: Database, tenant: UUID, steps: Steps) -> None:
    await subscribe(database, tenant, headers=b"encrypted headers")
    await database.fetch(
        "INSERT INTO old_secrets (id, tenant_id, secret, until) VALUES ($1, $2, 'old', now() + interval '1 hour')",
        ids.new(),
        tenant,
    )
    claims = await steps.take(await add_event(database, tenant, **CALLBACK))
    assert {claim.webhook_id is None: len(claim.secrets) for claim in claims} == {True: 2, False: 1}
    for claim in claims:
        state = await look_at(database, claim.id)
        assert (state.status, state.attempt, state.tries, state.leased) == ("pending", 1, 0, True)
        assert 0 < ((await examine(database, claim.endpoint_id)).next or 0) <= LEASE  # so a lapsed claim is found
    assert await steps.claim() == []
    await database.fetch("UPDATE deliveries SET next_at = now(), lease_until = now() WHERE lease_until IS NOT NULL")
    await database.fetch("UPDATE endpoints SET next_at = now()")
    again = {claim.id: without_times(claim) for claim in await steps.claim()}
    assert again == {claim.id: without_times(claim) | {"attempt": 2} for claim in claims}


async def test_a_delivery_whose_claim_is_lost_is_claimed_again_under_the_same_id(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    """A crash of the server may lose the last commits."""
    await subscribe(database, tenant)
    event = await add_event(database, tenant)
    (lost,) = await claim_without_commit(database, event)
    (claim,) = await steps.take(event)
    assert (claim.id, claim.attempt) == (lost.id, lost.attempt)


async def claim_without_commit(database: Database, event: UUID) -> list[ClaimedDelivery]:
    async with database.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        claims = (await NewDeliveryStore(connection).claim({event: ""}, 10, LEASE, CONCURRENCY)).claims
        await transaction.rollback()
    return claims


async def test_an_endpoint_has_no_more_in_flight_than_its_limit(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant)).id
    first = await steps.take(await add_event(database, tenant))
    rest = await steps.take(*[await add_event(database, tenant) for _ in range(CONCURRENCY)])
    assert (len(first), len(rest)) == (1, CONCURRENCY - 1)
    assert await steps.claim() == []
    assert await steps.take(await add_event(database, tenant)) == []
    waiting = await database.fetch("SELECT id FROM deliveries WHERE lease_until IS NULL ORDER BY next_at")
    assert await steps.record(first, OK) == [True]
    assert await steps.take(await add_event(database, tenant)) == []  # other deliveries wait
    (claim,) = await steps.claim()
    assert claim.id == waiting[0]["id"]
    next_check = (await examine(database, webhook)).next  # a second after the claim, because others wait
    assert next_check is not None
    assert next_check <= LEASE


async def test_a_rate_limit_of_0_is_none(database: Database, tenant: UUID, steps: Steps) -> None:
    await subscribe(database, tenant, rate_limit=0)
    assert len(await steps.take(await add_event(database, tenant))) == 1


async def test_no_more_are_claimed_than_the_limit(database: Database, tenant: UUID, steps: Steps) -> None:
    webhooks = {(await subscribe(database, tenant)).id for _ in range(2)}
    events = [await add_event(database, tenant) for _ in range(2)]
    claims = await steps.take(*events, limit=2)
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
async def test_an_endpoint_with_limits_is_left_to_the_loop(
    database: Database, tenant: UUID, steps: Steps, change: str, waits: bool
) -> None:
    await subscribe(database, tenant)
    await database.fetch(f"UPDATE endpoints SET {change}")  # noqa: S608 -- from the test's own parameters
    assert await steps.take(await add_event(database, tenant)) == []
    assert len(await steps.claim()) == (not waits)


async def test_a_delivery_behind_an_open_circuit_is_checked_when_it_closes(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    webhook = (await subscribe(database, tenant)).id
    change = "failures = 30, failing_since = now(), open_until = now() + interval '5 minutes'"
    await database.fetch(f"UPDATE endpoints SET {change}")  # noqa: S608 -- a constant
    for _ in range(2):
        await steps.take(await add_event(database, tenant))
        assert 290 < ((await examine(database, webhook)).next or 0) <= 300
        await steps.claim()
        assert 290 < ((await examine(database, webhook)).next or 0) <= 300


async def test_a_new_delivery_waits_behind_a_due_one(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant)).id
    (due,) = await add_due(database, tenant, webhook)
    assert await steps.take(await add_event(database, tenant)) == []
    assert [claim.id for claim in await steps.claim(1)] == [due]


async def test_deliveries_of_a_disabled_subscription_are_canceled(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    """Those that were new when it was disabled."""
    webhook = (await subscribe(database, tenant)).id
    event = await add_event(database, tenant)
    async with database.transaction() as connection:
        await lock_endpoints(connection, [webhook])
        await disable_webhooks(connection, [webhook], [], 0.0)
        await begin_canceling(connection, [webhook])
        await reschedule_endpoints(connection, [webhook], steps.endpoint_concurrency)
    assert await steps.take(event) == []
    assert await steps.claim() == []
    (delivery,) = await database.fetch("SELECT id, status FROM deliveries")
    assert delivery["status"] == "canceled"


@pytest.mark.parametrize("ordered", [False, True])
async def test_lost_messages_delay_no_later_delivery(
    database: Database, tenant: UUID, steps: Steps, *, ordered: bool
) -> None:
    """The message of an event names it. So nothing that was lost before takes its turn."""
    await subscribe(database, tenant, ordered=ordered)
    lost = [await add_event(database, tenant) for _ in range(2 * CONCURRENCY)]
    for _ in range(2):
        event = await add_event(database, tenant)
        claims = await steps.take(event) or await steps.claim()
        (sent,) = await database.fetch("SELECT id FROM deliveries WHERE event_id = $1", event)
        assert [claim.id for claim in claims] == [sent["id"]]
        await steps.record(claims, OK)
    assert {event for event, _ in await steps.new.find(-1.0, 100)} == set(lost)


async def test_a_failed_attempt_of_a_new_delivery_is_tried_again(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    webhook = (await subscribe(database, tenant)).id
    claims = await steps.take(await add_event(database, tenant))
    assert await steps.record(claims, FAILED) == [True]
    assert LEASE < ((await look_at(database, claims[0].id)).waits or 0) <= 60
    assert LEASE < ((await examine(database, webhook)).next or 0) <= 60


async def test_tenants_take_turns(database: Database, tenant: UUID, steps: Steps) -> None:
    """One tenant's new deliveries do not hold up another's."""
    for _ in range(3):
        await subscribe(database, tenant)
    other = await add_tenant(database, "other")
    quiet = (await subscribe(database, other)).id
    events = [await add_event(database, tenant) for _ in range(3)]
    claims = await steps.take(*events, await add_event(database, other), limit=2)
    assert [claim.webhook_id == quiet for claim in sorted(claims, key=lambda claim: claim.tenant_id == other)] == [
        False,
        True,
    ]


async def test_a_tenant_gets_no_more_than_its_room(database: Database, tenant: UUID, steps: Steps) -> None:
    other = await add_tenant(database, "other")
    await subscribe(database, tenant)
    await subscribe(database, other)
    events = dict.fromkeys([await add_event(database, owner) for owner in (tenant, other) for _ in range(3)], "")
    rooms = TenantRooms(2, {tenant: 0})
    claims = (await steps.new.claim(events, 100, LEASE, CONCURRENCY, rooms)).claims
    assert [claim.tenant_id for claim in claims] == [other, other]


async def test_a_claim_stops_after_a_number_of_bytes(database: Database, tenant: UUID, steps: Steps) -> None:
    """The others are scheduled. Nothing is read that is not sent."""
    await subscribe(database, tenant)
    events = [await add_event(database, tenant) for _ in range(3)]
    await database.fetch("UPDATE events SET body = convert_to(repeat('x', $1), 'UTF8')", MAX_BATCH_BYTES // 2)
    assert len(await steps.take(*events)) == 2
    assert len(await steps.claim()) == 1


async def test_few_receivers_of_an_event_are_looked_at_first(database: Database, tenant: UUID, steps: Steps) -> None:
    """The others are scheduled afterwards."""
    webhooks = [(await subscribe(database, tenant)).id for _ in range(3 * RECEIVERS)]
    event = await add_event(database, tenant)
    found = await steps.new.claim({event: ""}, 100, LEASE, CONCURRENCY)
    assert (found.found, found.most, len(found.claims)) == (RECEIVERS, RECEIVERS, RECEIVERS)
    scheduled = await steps.new.schedule({event: ""}, 0.0, LEASE)
    assert (len(scheduled.endpoints), scheduled.wide) == (RECEIVERS, [(tenant, event)])
    rest = await steps.new.schedule({event: ""}, 0.0, LEASE, 100)
    assert (len(rest.endpoints), rest.wide) == (RECEIVERS, [])
    assert {claim.endpoint_id for claim in found.claims} | {*scheduled.endpoints, *rest.endpoints} == set(webhooks)


async def test_a_missed_delivery_from_the_future_is_found(database: Database, tenant: UUID) -> None:
    """The database's clock was set back after its event."""
    store = NewDeliveryStore(database)
    await subscribe(database, tenant)
    event = await add_event(database, tenant)
    assert await store.find(60.0, 10) == []
    await database.fetch("UPDATE deliveries SET created_at = created_at + interval '10 minutes'")
    assert await store.find(60.0, 10) == [(event, "")]
