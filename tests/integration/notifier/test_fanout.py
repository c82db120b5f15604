"""An event becomes one delivery for each receiver."""

import asyncio
from uuid import UUID

import pytest

from common.postgres.database import Database
from services.notifier.store.attempts import cancel_pending, disable_webhooks
from services.notifier.store.cleanup import delete_unused_endpoints
from services.notifier.store.endpoints import lock_endpoints, reschedule_endpoints
from services.notifier.store.fanout import ClaimOptions, Receiver
from tests.integration.deliveries import CALLBACK, add_event, subscribe
from tests.integration.jobs import add_tenant
from tests.integration.notifier.steps import LEASE, OK, Steps
from tests.integration.waiting import DEADLINE, until_blocked

EVENT_TYPES = ["job.started", "job.succeeded", "job.failed", "delivery.exhausted", "webhook.disabled"]


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database)


async def list_deliveries(database: Database) -> list[tuple[UUID, UUID | None]]:
    """Return (event, subscription) pairs in order of id."""
    found = await database.fetch("SELECT event_id, webhook_id FROM deliveries ORDER BY id")
    return [(record["event_id"], record["webhook_id"]) for record in found]


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("job.succeeded", ["job.succeeded"]),
        ("job.*", ["job.started", "job.succeeded", "job.failed"]),
        ("*.succeeded", ["job.succeeded"]),
        ("delivery.*", ["delivery.exhausted"]),
        ("*.*", EVENT_TYPES),
        ("*", EVENT_TYPES),
    ],
)
async def test_a_pattern_selects_events(
    database: Database, tenant: UUID, steps: Steps, pattern: str, matching: list[str]
) -> None:
    await subscribe(database, tenant, events=[pattern, "batch.completed"])
    events = {kind: await add_event(database, tenant, kind) for kind in EVENT_TYPES}
    assert await steps.fan_out(*events.values()) == len(matching)
    delivered = {event for event, _ in await list_deliveries(database)}
    assert delivered == {events[kind] for kind in matching}


async def test_an_event_is_fanned_out_once_despite_many_messages(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    webhooks = {(await subscribe(database, tenant)).id for _ in range(2)}
    event = await add_event(database, tenant, **CALLBACK)
    found = await asyncio.gather(*(steps.fan_out(event) for _ in range(4)))
    assert sorted(found) == [0, 0, 0, 3]
    assert await steps.fan_out(event) == 0
    made = await list_deliveries(database)
    assert (len(made), set(made)) == (3, {(event, each) for each in (*webhooks, None)})
    assert len(await steps.claim()) == 3


async def test_models_tenants_and_disabled_subscriptions_are_respected(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    other = await add_tenant(database, "other")
    every = (await subscribe(database, tenant)).id
    some = (await subscribe(database, tenant, models=["ocr", "tokens"])).id
    await subscribe(database, other)
    off = (await subscribe(database, tenant)).id
    await database.fetch("UPDATE webhooks SET disabled_at = now(), disabled_reason = 'gone' WHERE id = $1", off)
    echo, ocr = await add_event(database, tenant), await add_event(database, tenant, model="ocr")
    operational = await add_event(database, tenant, "job.expired")
    await database.fetch("UPDATE events SET model = NULL, job_id = NULL WHERE id = $1", operational)
    await steps.fan_out(echo, ocr, operational)
    expected = {(echo, every), (ocr, every), (ocr, some), (operational, every), (operational, some)}
    assert set(await list_deliveries(database)) == expected


async def test_callbacks_to_one_origin_share_an_endpoint(database: Database, tenant: UUID, steps: Steps) -> None:
    urls = ["https://a.example/1", "https://A.example/2?x=https://b", "https://a.example:444/", "http://a.example/"]
    events = [await add_event(database, tenant, **CALLBACK | {"callback_url": url}) for url in urls]
    await steps.fan_out(*events[:2])
    await steps.fan_out(*events[2:])
    other = await add_tenant(database, "other")
    await steps.fan_out(await add_event(database, other, **CALLBACK | {"callback_url": urls[0]}))
    found = await database.fetch("SELECT count(*) AS deliveries FROM deliveries GROUP BY endpoint_id ORDER BY 1")
    assert [record["deliveries"] for record in found] == [1, 1, 1, 2]
    assert len(await steps.claim()) == 5


async def test_a_subscription_disabled_meanwhile_gets_nothing(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant)).id
    event = await add_event(database, tenant)
    async with database.transaction() as connection:
        await lock_endpoints(connection, [webhook])
        fanning_out = asyncio.create_task(steps.fan_out(event))
        await until_blocked(database)
        await disable_webhooks(connection, [webhook], [], 0.0)
        await cancel_pending(connection, [webhook])
        await reschedule_endpoints(connection, [webhook], steps.endpoint_concurrency)
    await fanning_out
    assert await steps.claim() == []


async def test_an_endpoint_deleted_meanwhile_is_added_again(database: Database, tenant: UUID, steps: Steps) -> None:
    await steps.fan_out(await add_event(database, tenant, **CALLBACK))
    await database.fetch("DELETE FROM deliveries")
    await database.fetch("UPDATE endpoints SET next_at = NULL")
    event = await add_event(database, tenant, **CALLBACK)
    endpoints = [record["id"] for record in await database.fetch("SELECT id FROM endpoints")]
    async with database.transaction() as connection:
        await lock_endpoints(connection, endpoints)
        fanning_out = asyncio.create_task(steps.fan_out(event))
        await until_blocked(database)
        assert await delete_unused_endpoints(connection, 10)
    assert await fanning_out == 1
    assert await list_deliveries(database) == [(event, None)]


async def test_a_second_try_locks_the_endpoints_first(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant)).id
    event = await add_event(database, tenant)
    async with database.transaction() as connection:
        await lock_endpoints(connection, [webhook])
        deferred, options = [Receiver(tenant, webhook, None)], ClaimOptions(0.0, LEASE, 1, 1)
        fanning_out = asyncio.create_task(steps.fanout.fan_out_with_locks(deferred, {event: ""}, options))
        await until_blocked(database)
        await reschedule_endpoints(connection, [webhook], steps.endpoint_concurrency)
    assert len((await fanning_out).claims) == 1


async def test_a_fanout_proceeds_while_a_record_waits_for_a_lock(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    held = (await subscribe(database, tenant)).id
    await steps.fan_out(await add_event(database, tenant))
    claims = await steps.claim()
    other = await add_tenant(database, "other")
    await subscribe(database, other)
    event = await add_event(database, other)
    async with database.transaction() as connection:
        await lock_endpoints(connection, [held])
        recording = asyncio.create_task(steps.record(claims, OK))
        await until_blocked(database)
        assert await asyncio.wait_for(steps.fan_out(event), DEADLINE) == 1
        assert not recording.done()
    assert await recording == [True]


async def test_an_event_whose_message_was_lost_is_found(database: Database, tenant: UUID, steps: Steps) -> None:
    missed, handled, fresh = [await add_event(database, tenant) for _ in range(3)]
    await database.fetch("UPDATE events SET created_at = now() - interval '1 minute' WHERE id <> $1", fresh)
    await steps.fan_out(handled)
    assert list(await steps.fanout.find_missed_events(30.0, 10)) == [missed]
