"""Disabled subscriptions, exhausted deliveries, and the events about them."""

from uuid import UUID

import msgspec
import pytest

from common import ids
from common.postgres.database import Database
from services.notifier.claims.store import ClaimedDelivery
from tests.integration.deliveries import CALLBACK, add_due, add_event, look_at, subscribe
from tests.integration.notifier.steps import FAILED, GIVEN_UP, GONE, INTERNAL, OK, SCHEDULE, Steps

EVENTS = "SELECT id, type, body FROM events WHERE job_id IS NULL ORDER BY id"


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database)


async def list_events(database: Database) -> list[tuple[str, dict[str, object]]]:
    """Return the operational events: type and data."""
    found = await database.fetch(EVENTS)
    bodies = [msgspec.json.decode(record["body"]) for record in found]
    assert [record["type"] for record in found] == [body["type"] for body in bodies]
    return [(body["type"], body["data"]) for body in bodies]


async def find_disabled_reason(database: Database, webhook: UUID) -> str | None:
    """Return the reason, or None if the subscription is enabled."""
    record = await database.fetch_one("SELECT disabled_at, disabled_reason FROM webhooks WHERE id = $1", webhook)
    assert record is not None
    assert (record["disabled_at"] is None) == (record["disabled_reason"] is None)
    reason: str | None = record["disabled_reason"]
    return reason


async def test_a_410_disables_and_cancels_and_the_others_get_an_event(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    rejecting = await subscribe(database, tenant, events=["*"])
    other = await subscribe(database, tenant, events=["webhook.disabled"])
    deliveries = await add_due(database, tenant, rejecting.id, 12)
    claims = {claim.id: claim for claim in await steps.claim()}
    assert len(claims) == 10
    await steps.record([claims[deliveries[0]]], GONE)
    assert await find_disabled_reason(database, rejecting.id) == "gone"
    await steps.ended_subscriptions.advance()
    statuses = [(await look_at(database, each)).status for each in deliveries]
    assert statuses == ["exhausted", *["pending"] * 9, "canceled", "canceled"]  # attempts in flight may end

    await steps.record([claims[deliveries[1]]], OK)
    await steps.record([claims[deliveries[2]]], FAILED)
    await steps.record([claims[deliveries[3]]], GONE)
    statuses = [(await look_at(database, each)).status for each in deliveries[1:4]]
    assert statuses == ["succeeded", "canceled", "exhausted"]

    found = [data for kind, data in await list_events(database) if kind == "webhook.disabled"]
    assert [data.pop("disabled_at") is not None for data in found] == [True]
    shown = {
        "id": ids.encode(ids.Kind.WEBHOOK, rejecting.id),
        "url": rejecting.url,
        "description": rejecting.description,
    }
    assert found == [shown | {"status": "disabled", "disabled_reason": "gone"}]
    await schedule_all(database, steps)
    assert [claim.webhook_id for claim in await steps.claim()] == [other.id]


async def test_a_failure_at_a_former_url_says_nothing_of_the_new_one(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    webhook = await subscribe(database, tenant)
    gone, failed, succeeded = await add_due(database, tenant, webhook.id, 3)
    claims = {claim.id: claim for claim in await steps.claim()}
    await database.fetch("UPDATE webhooks SET url = 'https://new.example/' WHERE id = $1", webhook.id)
    await steps.record([claims[gone]], GONE)
    await steps.record([claims[failed]], FAILED)
    assert await find_disabled_reason(database, webhook.id) is None
    health = await database.fetch_one("SELECT failures, failing_since FROM endpoints WHERE id = $1", webhook.id)
    assert health is not None
    assert tuple(health) == (0, None)
    again = {claim.id: claim for claim in await steps.claim()}
    assert {each: claim.url for each, claim in again.items()} == dict.fromkeys((gone, failed), "https://new.example/")
    await steps.record([claims[succeeded], again[failed]], OK)
    await steps.record([again[gone]], GONE)
    assert await find_disabled_reason(database, webhook.id) == "gone"
    states = [await look_at(database, each) for each in (gone, failed, succeeded)]
    assert [state.status for state in states] == ["exhausted", "succeeded", "succeeded"]


async def test_a_lapsed_claim_is_canceled_as_well(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = await subscribe(database, tenant)
    await add_due(database, tenant, webhook.id, 2)
    (lapsed,) = await steps.claim(1, lease=0.0)
    await database.fetch("UPDATE deliveries SET next_at = now() + interval '1 hour' WHERE id = $1", lapsed.id)
    (claim,) = await steps.claim()
    await steps.record([claim], GONE)
    await steps.ended_subscriptions.advance()
    assert (await look_at(database, lapsed.id)).status == "canceled"
    assert await steps.record([lapsed], OK) == [False]
    assert await steps.claim() == []


async def test_a_410_of_a_callback_ends_one_delivery(database: Database, tenant: UUID, steps: Steps) -> None:
    await steps.schedule(*[await add_event(database, tenant, **CALLBACK) for _ in range(2)])
    first, second = await steps.claim()
    await steps.record([first], GONE)
    await steps.record([second], FAILED)
    assert [(await look_at(database, each.id)).status for each in (first, second)] == ["exhausted", "pending"]


async def test_a_subscription_that_fails_too_long_is_disabled(database: Database, tenant: UUID) -> None:
    steps = Steps(database, disable_after=100.0)
    webhook = await subscribe(database, tenant)
    deliveries = await add_due(database, tenant, webhook.id, 4)
    first, second, third, fourth = await steps.claim()
    await steps.record([first], FAILED)
    await age(database, webhook.id, 90)
    await steps.record([second], FAILED)
    assert await find_disabled_reason(database, webhook.id) is None
    await age(database, webhook.id, 20)
    await steps.record([third], INTERNAL)  # not the receiver's failure
    assert await find_disabled_reason(database, webhook.id) is None
    await steps.record([fourth], FAILED)
    assert await find_disabled_reason(database, webhook.id) == "failing"
    await steps.ended_subscriptions.advance()
    assert {(await look_at(database, each)).status for each in deliveries} == {"canceled"}
    ((kind, data),) = await list_events(database)
    assert (kind, data["disabled_reason"]) == ("webhook.disabled", "failing")


async def test_one_success_resets_the_time(database: Database, tenant: UUID) -> None:
    steps = Steps(database, disable_after=100.0)
    webhook = await subscribe(database, tenant)
    await add_due(database, tenant, webhook.id, 3)
    first, second, third = await steps.claim()
    await steps.record([first], FAILED)
    await age(database, webhook.id, 200)
    await steps.record([second], OK)
    await steps.record([third], FAILED)
    assert await find_disabled_reason(database, webhook.id) is None


async def test_an_exhausted_delivery_has_an_event_with_its_attempts(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    failing = await subscribe(database, tenant)
    watcher = await subscribe(database, tenant, events=["delivery.exhausted"])
    await steps.schedule(event := await add_event(database, tenant))
    (claim,) = await steps.attempt(GIVEN_UP)
    ((kind, data),) = await list_events(database)
    assert kind == "delivery.exhausted"
    assert (data["id"], data["event_id"]) == (
        ids.encode(ids.Kind.DELIVERY, claim.id),
        ids.encode(ids.Kind.EVENT, event),
    )
    assert (data["event_type"], data["status"]) == ("job.succeeded", "exhausted")
    assert data["webhook_id"] == ids.encode(ids.Kind.WEBHOOK, failing.id)
    (attempt,) = msgspec.convert(data["attempts"], list[dict[str, object]])
    assert (attempt["number"], attempt["status_code"], attempt["error"]) == (
        1,
        500,
        {"code": "http_status", "message": "the receiver answered 500"},
    )
    assert attempt["response"] == "oh"
    await schedule_all(database, steps)
    assert [each.webhook_id for each in await steps.claim()] == [watcher.id]


async def test_events_about_events_end(database: Database, tenant: UUID, steps: Steps) -> None:
    await subscribe(database, tenant, events=["*"])
    await steps.schedule(await add_event(database, tenant))
    kinds = []
    while claims := await exhaust_all(database, steps):
        kinds += [claim.event_type for claim in claims]
    assert kinds == ["job.succeeded", "delivery.exhausted"]


async def test_each_event_has_a_wake_up_message(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = await subscribe(database, tenant)
    await add_due(database, tenant, webhook.id)
    await steps.attempt(GONE)
    keys = sorted(wake_up.routing_key for wake_up in steps.wake_ups.take())
    assert keys == ["delivery.exhausted", "webhook.disabled"]


async def test_a_delivery_that_waits_a_whole_schedule_behind_an_open_circuit_is_exhausted(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    webhook = await subscribe(database, tenant)
    deliveries = await add_due(database, tenant, webhook.id, 4)
    assert [claim.id for claim in await steps.claim(1, lease=0.0)] == deliveries[:1]
    assert [claim.id for claim in await steps.claim(1)] == deliveries[1:2]
    whole = sum(SCHEDULE) * 1.2
    await database.fetch("UPDATE endpoints SET failures = 30, open_until = now(), failing_since = now()")
    change = (
        "UPDATE deliveries SET schedule_started_at = schedule_started_at - make_interval(secs => $2) WHERE id <> $1"
    )
    await database.fetch(change, deliveries[-1], whole + 9)
    await steps.overdue.exhaust()
    assert await list_events(database) == []  # the endpoint has not failed for as long
    await age(database, webhook.id, whole + 9)
    await steps.overdue.exhaust()
    statuses = [(await look_at(database, each)).status for each in deliveries]
    assert statuses == ["exhausted", "pending", "exhausted", "pending"]  # not those in flight or young
    assert [kind for kind, _ in await list_events(database)] == ["delivery.exhausted"] * 2


async def age(database: Database, webhook: UUID, seconds: float) -> None:
    """Make its failures start earlier."""
    change = "UPDATE endpoints SET failing_since = failing_since - make_interval(secs => $2) WHERE id = $1"
    await database.fetch(change, webhook, seconds)


async def schedule_all(database: Database, steps: Steps) -> None:
    found = await database.fetch("SELECT DISTINCT event_id AS id FROM deliveries WHERE next_at IS NULL")
    await steps.schedule(*[record["id"] for record in found])


async def exhaust_all(database: Database, steps: Steps) -> list[ClaimedDelivery]:
    await schedule_all(database, steps)
    return await steps.attempt(GIVEN_UP)
