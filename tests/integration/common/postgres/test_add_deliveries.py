"""The database inserts the deliveries of an event with the event: one for each receiver."""

import asyncio
import time
from uuid import UUID

import pytest

from common import ids
from common.event_types import EVENT_TYPES, list_patterns
from common.jobs.end import end_jobs
from common.postgres.database import Database
from services.gateway.webhooks.store import WebhookStore
from services.notifier.cleanup.store import delete_locked_endpoints, lock_unused_endpoints
from tests.integration.deliveries import CALLBACK, EVENT, add_event, look_at, subscribe
from tests.integration.jobs import TRACEPARENT, add_tenant, claim, new_end, submit
from tests.integration.waiting import DEADLINE, until_blocked

TYPES = ["job.started", "job.succeeded", "job.failed", "delivery.exhausted", "webhook.disabled"]


async def list_deliveries(database: Database) -> list[tuple[UUID, UUID | None]]:
    """Return (event, subscription) pairs in order of id."""
    found = await database.fetch("SELECT event_id, webhook_id FROM deliveries ORDER BY id")
    return [(record["event_id"], record["webhook_id"]) for record in found]


@pytest.mark.parametrize("event_type", EVENT_TYPES)
async def test_the_patterns_of_an_event_are_those_that_a_client_may_subscribe_to(
    database: Database, event_type: str
) -> None:
    record = await database.fetch_one("SELECT event_patterns($1) AS patterns", event_type)
    assert record is not None
    assert record["patterns"] == list_patterns(event_type)


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("job.succeeded", ["job.succeeded"]),
        ("job.*", ["job.started", "job.succeeded", "job.failed"]),
        ("*.succeeded", ["job.succeeded"]),
        ("delivery.*", ["delivery.exhausted"]),
        ("*.*", TYPES),
        ("*", TYPES),
    ],
)
async def test_a_pattern_selects_events(database: Database, tenant: UUID, pattern: str, matching: list[str]) -> None:
    await subscribe(database, tenant, events=[pattern, "batch.completed"])
    events = {kind: await add_event(database, tenant, kind) for kind in TYPES}
    found = await list_deliveries(database)
    assert sorted(event for event, _ in found) == sorted(events[kind] for kind in matching)


async def test_models_tenants_and_disabled_subscriptions_are_respected(database: Database, tenant: UUID) -> None:
    other = await add_tenant(database, "other")
    every = (await subscribe(database, tenant)).id
    some = (await subscribe(database, tenant, models=["ocr", "tokens"])).id
    await subscribe(database, other)
    off = (await subscribe(database, tenant)).id
    await database.fetch("UPDATE webhooks SET disabled_at = now(), disabled_reason = 'gone' WHERE id = $1", off)
    echo, ocr = await add_event(database, tenant), await add_event(database, tenant, model="ocr")
    operational = ids.new()
    await database.fetch(EVENT, operational, tenant, None, None, "job.expired")
    expected = {(echo, every), (ocr, every), (ocr, some), (operational, every), (operational, some)}
    found = await list_deliveries(database)
    assert (len(found), set(found)) == (len(expected), expected)


async def test_an_end_inserts_the_deliveries_of_its_event(database: Database, tenant: UUID) -> None:
    webhook = (await subscribe(database, tenant)).id
    end = new_end(await claim(database, await submit(database, tenant, **CALLBACK)))
    assert await end_jobs(database, [end])
    found = await database.fetch("SELECT * FROM deliveries ORDER BY webhook_id NULLS LAST")
    assert [each["webhook_id"] for each in found] == [webhook, None]
    for each in found:
        state = await look_at(database, each["id"])
        assert (state.status, state.attempt, state.waits, state.leased) == ("pending", 0, None, False)
        assert (each["event_id"], each["job_id"], each["traceparent"]) == (end.event.id, end.id, TRACEPARENT)
    assert [each["url"] for each in found] == ["https://example.com/a", CALLBACK["callback_url"]]


async def test_an_event_without_receivers_has_no_deliveries(database: Database, tenant: UUID) -> None:
    await subscribe(database, tenant, events=["batch.completed"])
    await subscribe(database, await add_tenant(database, "other"))
    await add_event(database, tenant)
    await add_event(database, tenant, **CALLBACK | {"callback_events": ["job.failed"]})
    assert await list_deliveries(database) == []
    assert await database.fetch("SELECT 1 FROM endpoints WHERE webhook_id IS NULL") == []


def made_at(value: UUID) -> float:
    """Return the Unix time of a UUIDv7, to the millisecond."""
    return (value.int >> 80) / 1000


async def test_the_id_of_a_delivery_follows_from_its_event_and_its_endpoint(database: Database, tenant: UUID) -> None:
    for _ in range(2):
        await subscribe(database, tenant)
    events = [await add_event(database, tenant, **CALLBACK) for _ in range(2)]
    found = await database.fetch("SELECT id, event_id, derive_id(event_id, endpoint_id) AS derived FROM deliveries")
    assert len({each["id"] for each in found}) == 6
    for each in found:
        assert each["id"] == each["derived"]
        assert (each["id"].version, each["id"].variant) == (7, ids.new().variant)
        assert made_at(each["id"]) == made_at(each["event_id"])
        assert each["event_id"] in events
        assert abs(made_at(each["id"]) - time.time()) < 60


async def test_callbacks_to_one_origin_share_an_endpoint(database: Database, tenant: UUID) -> None:
    urls = ["https://a.example/1", "https://A.example/2?x=https://b", "https://a.example:444/", "http://a.example/"]
    for url in urls:
        await add_event(database, tenant, **CALLBACK | {"callback_url": url})
    other = await add_tenant(database, "other")
    await add_event(database, other, **CALLBACK | {"callback_url": urls[0]})
    found = await database.fetch("SELECT count(*) AS deliveries FROM deliveries GROUP BY endpoint_id ORDER BY 1")
    assert [record["deliveries"] for record in found] == [1, 1, 1, 2]


async def test_a_new_origin_may_come_from_two_connections_at_once(database: Database, tenant: UUID) -> None:
    events = [ids.new() for _ in range(2)]
    jobs = [await submit(database, tenant, **CALLBACK) for _ in range(2)]
    async with database.transaction() as connection:
        await connection.execute(EVENT, events[0], tenant, jobs[0], "echo", "job.succeeded")
        inserting = asyncio.create_task(database.fetch(EVENT, events[1], tenant, jobs[1], "echo", "job.succeeded"))
        await until_blocked(database)
    await inserting
    assert sorted(await list_deliveries(database)) == sorted((event, None) for event in events)
    assert len(await database.fetch("SELECT 1 FROM endpoints")) == 1


async def test_a_subscription_that_is_deleted_meanwhile_is_skipped(database: Database, tenant: UUID) -> None:
    """The job's end neither fails nor loses its other receivers."""
    deleted, kept = [(await subscribe(database, tenant)).id for _ in range(2)]
    end = new_end(await claim(database, await submit(database, tenant)))
    async with database.transaction() as connection:
        await WebhookStore(database).delete(connection, deleted)
        ending = asyncio.create_task(end_jobs(database, [end]))
        await until_blocked(database)
    assert await ending == {end.event.id}
    assert await list_deliveries(database) == [(end.event.id, kept)]


async def test_a_callback_endpoint_that_is_deleted_meanwhile_is_added_again(database: Database, tenant: UUID) -> None:
    await add_event(database, tenant, **CALLBACK)
    await database.fetch("DELETE FROM deliveries")
    async with database.transaction() as connection:
        assert await delete_locked_endpoints(connection, await lock_unused_endpoints(connection, 10))
        adding = asyncio.create_task(add_event(database, tenant, **CALLBACK))
        await until_blocked(database)
    event = await adding
    assert await list_deliveries(database) == [(event, None)]


async def test_a_callback_endpoint_that_is_about_to_be_deleted_is_added_again(database: Database, tenant: UUID) -> None:
    await add_event(database, tenant, **CALLBACK)
    await database.fetch("DELETE FROM deliveries")
    async with database.transaction() as connection:
        await connection.execute("SELECT FROM endpoints FOR UPDATE")
        adding = asyncio.create_task(add_event(database, tenant, **CALLBACK))
        await until_blocked(database)
        assert await delete_locked_endpoints(connection, await lock_unused_endpoints(connection, 10))
    event = await adding
    assert await list_deliveries(database) == [(event, None)]


async def test_a_callback_endpoint_is_kept_if_an_event_comes_before_its_lock(database: Database, tenant: UUID) -> None:
    event = await add_event(database, tenant, **CALLBACK)
    found = await database.fetch("SELECT id FROM endpoints")
    async with database.transaction() as connection:
        assert await delete_locked_endpoints(connection, [record["id"] for record in found]) == []
    assert await list_deliveries(database) == [(event, None)]


async def test_an_event_does_not_wait_for_the_work_on_its_endpoints(database: Database, tenant: UUID) -> None:
    webhook = (await subscribe(database, tenant)).id
    await add_event(database, tenant, **CALLBACK)
    async with database.transaction() as connection:
        await connection.execute("SELECT FROM endpoints FOR NO KEY UPDATE")
        await connection.execute("SELECT FROM webhooks FOR NO KEY UPDATE")
        event = await asyncio.wait_for(add_event(database, tenant, **CALLBACK), DEADLINE)
    assert {receiver for each, receiver in await list_deliveries(database) if each == event} == {webhook, None}
