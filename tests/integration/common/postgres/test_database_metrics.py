"""Metrics that are counted in the database."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common import ids
from common.errors import DatabaseUnavailable
from common.job_states import Priority, Status
from common.jobs.end import end_jobs
from common.postgres import database_metrics
from common.postgres.database import Database
from tests.integration.deliveries import CALLBACK, EVENT, add_event
from tests.integration.jobs import claim, new_end, submit
from tests.integration.world import World
from tests.support.telemetry.process_metrics import count

OLD = timedelta(minutes=10)
WEBHOOK = """
INSERT INTO webhooks (id, tenant_id, url, events, signing, secret, disabled_at, disabled_reason)
VALUES ($1, $2, 'https://a', '{job.failed}', 'hmac', '', CASE WHEN $3 THEN now() END, CASE WHEN $3 THEN 'gone' END)
"""
ENDPOINT = """
INSERT INTO endpoints (id, tenant_id, webhook_id, failures, failing_since, open_until, next_at)
VALUES ($1, $2, $1, $3::boolean::integer, CASE WHEN $3 THEN now() END, CASE WHEN $3 THEN now() END,
        CASE WHEN NOT $3 THEN now() END)
"""
DELIVERY = """
INSERT INTO deliveries (id, event_id, event_generation, tenant_id, job_id, webhook_id, url, event_type, endpoint_id,
                        traceparent, next_at)
SELECT derive_id(id, $1), id, generation, tenant_id, job_id, $1, 'https://a', type, $1, '', now() - $3::interval
FROM events
WHERE id = $2
"""


@pytest.fixture
async def world(database: Database, tenant: UUID) -> World:
    world = World(database, tenant)
    await world.begin()
    return world


async def test_queues_are_counted_by_model_and_priority(world: World) -> None:
    database, tenant = world.database, world.tenant
    for _ in range(3):
        await submit(database, tenant)
    await submit(database, tenant, priority=Priority.LOW)
    await submit(database, tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    await database.fetch("UPDATE jobs SET run_at = now() - $1::interval WHERE priority = 'low'", OLD)
    await database_metrics.count(database)
    assert [count("charonia_queue_depth", model="echo", priority=each) for each in ("normal", "low", "high")] == [
        3,
        1,
        0,
    ]
    assert count("charonia_queue_depth", model="other", priority="low") == 0
    assert count("charonia_jobs", model="echo", status="queued") == 5  # with the scheduled one
    low, normal = (count("charonia_queue_oldest_seconds", model="echo", priority=each) for each in ("low", "normal"))
    assert low is not None
    assert normal is not None
    assert 0 <= normal < OLD.total_seconds() <= low


async def test_jobs_that_wait_for_another_one_cannot_run_now(world: World) -> None:
    database, tenant = world.database, world.tenant
    for _ in range(2):
        await submit(database, tenant, reuse_key=bytes(32), reuse_seconds=60.0)
    await submit(database, tenant)
    await database_metrics.count(database)
    assert count("charonia_jobs_joined", model="echo") == 2
    assert count("charonia_jobs_joined", model="other") == 0
    assert count("charonia_queue_depth", model="echo", priority="normal") == 1
    assert count("charonia_jobs", model="echo", status="queued") == 3


async def test_running_jobs_are_counted_by_state(world: World) -> None:
    database, tenant = world.database, world.tenant
    jobs = [await claim(database, await submit(database, tenant)) for _ in range(3)]
    await database.fetch("UPDATE jobs SET status = 'canceling' WHERE id = $1", jobs[0].id)
    await database.fetch("UPDATE jobs SET started_at = now() - $1::interval WHERE id = $2", OLD, jobs[1].id)
    await database_metrics.count(database)
    assert count("charonia_jobs", model="echo", status="processing") == 2
    assert count("charonia_jobs", model="echo", status="canceling") == 1
    oldest = count("charonia_running_oldest_seconds", model="echo")
    assert oldest is not None
    assert oldest >= OLD.total_seconds()
    await database.fetch("DELETE FROM jobs")
    await database.fetch("DELETE FROM served_models WHERE name = 'small'")
    await database_metrics.count(database)
    assert count("charonia_jobs", model="echo", status="processing") == 0
    assert count("charonia_running_oldest_seconds", model="echo") == 0
    assert count("charonia_jobs", model="small", status="queued") is None


async def test_startable_jobs_are_those_that_pauses_and_limits_let_start(world: World) -> None:
    database, tenant = world.database, world.tenant
    for priority in (Priority.HIGH, Priority.LOW, Priority.LOW):
        await submit(database, tenant, priority=priority)
    await submit(database, tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    await claim(database, await submit(database, tenant))

    async def count_startable(
        max_running: int | None = None, *, model: bool = False, tenants: bool = False
    ) -> float | None:
        await database.fetch("DELETE FROM model_limits")
        await database.fetch(
            "INSERT INTO model_limits (model, max_running, paused_at) VALUES ('echo', $1, CASE WHEN $2 THEN now() END)",
            max_running,
            model,
        )
        await database.fetch("UPDATE tenants SET paused_at = CASE WHEN $1 THEN now() END", tenants)
        await database_metrics.count(database)
        return count("charonia_jobs_startable", model="echo")

    assert await count_startable() == 3
    assert await count_startable(10) == 3
    assert await count_startable(3) == 2  # one runs
    assert await count_startable(1) == 0
    assert await count_startable(model=True) == 0
    assert await count_startable(tenants=True) == 0
    assert count("charonia_queue_depth", model="echo", priority="low") == 2
    assert count("charonia_jobs_startable", model="other") == 0
    await database.fetch("DELETE FROM model_limits")
    await database.fetch("UPDATE tenants SET paused_at = NULL")


async def test_failed_jobs_are_dead_letters_until_they_are_erased(world: World) -> None:
    job = await claim(world.database, await submit(world.database, world.tenant))
    await end_jobs(world.database, [new_end(job, Status.FAILED)])
    await database_metrics.count(world.database)
    assert count("charonia_dead_letters") == 1
    await world.database.fetch("UPDATE jobs SET erased_at = now()")
    await database_metrics.count(world.database)
    assert count("charonia_dead_letters") == 0


async def test_webhooks_are_counted_and_the_lag_is_that_of_closed_circuits(world: World) -> None:
    database, tenant = world.database, world.tenant
    job, event = await submit(database, tenant), ids.new()
    await database.fetch(EVENT, event, tenant, job, "echo", "job.started")
    for is_shut, minutes in ((False, 1), (True, 10)):
        webhook = ids.new()
        await database.fetch(WEBHOOK, webhook, tenant, is_shut)
        await database.fetch(ENDPOINT, webhook, tenant, is_shut)
        await database.fetch(DELIVERY, webhook, event, timedelta(minutes=minutes))
    by_hand = ids.new()
    await database.fetch(WEBHOOK, by_hand, tenant, True)
    await database.fetch("UPDATE webhooks SET disabled_reason = 'manual' WHERE id = $1", by_hand)
    await add_event(database, tenant, **CALLBACK)
    await database.fetch("UPDATE deliveries SET created_at = now() - $1::interval WHERE next_at IS NULL", OLD)
    await database_metrics.count(database)
    assert (count("charonia_subscriptions_disabled"), count("charonia_endpoint_circuits_open")) == (1, 1)
    assert count("charonia_new_deliveries") == 1
    lag, waiting = count("charonia_delivery_lag_seconds"), count("charonia_new_deliveries_oldest_seconds")
    assert lag is not None
    assert waiting is not None
    assert 60 <= lag < OLD.total_seconds() <= waiting


async def test_nothing_is_counted_beyond_the_bound(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_metrics, "MAX_COUNT", 2)
    for _ in range(3):
        await submit(world.database, world.tenant)
    await database_metrics.count(world.database)
    assert count("charonia_queue_depth", model="echo", priority="normal") == 2


async def collect_through_an_outage(world: World, monkeypatch: pytest.MonkeyPatch, ends: Callable[[], bool]) -> None:
    """Count once with success. Then fail until `ends`. The time of the latest count stays that of the first."""
    await submit(world.database, world.tenant)
    begin, calls, counted_at = world.database.transaction, 0, None

    def fail(seconds: float) -> object:
        nonlocal calls, counted_at
        calls += 1
        if calls == 1:
            return begin(seconds)
        counted_at = counted_at or count("charonia_database_metrics_timestamp_seconds")
        if calls > 3 and ends():
            raise asyncio.CancelledError
        raise DatabaseUnavailable

    monkeypatch.setattr(database_metrics, "INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(database_metrics, "PAUSE_FACTOR", 0)
    monkeypatch.setattr(world.database, "transaction", fail)
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await database_metrics.collect_metrics(world.database)
    assert count("charonia_database_metrics_timestamp_seconds") == counted_at


async def test_a_short_outage_leaves_the_gauges_as_they_were(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    depths = []

    def look() -> bool:
        depths.append(count("charonia_queue_depth", model="echo", priority="normal"))
        return True

    await collect_through_an_outage(world, monkeypatch, look)
    assert depths == [1]


async def test_a_process_that_counts_no_more_shows_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await collect_through_an_outage(world, monkeypatch, lambda: True)
    assert count("charonia_queue_depth", model="echo", priority="normal") is None
    assert str(count("charonia_dead_letters")) == "nan"


async def test_a_long_outage_clears_the_gauges_until_the_next_count(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_gone() -> bool:
        return count("charonia_queue_depth", model="echo", priority="normal") is None

    with monkeypatch.context() as patch:
        patch.setattr(database_metrics, "STALE_SECONDS", 0.0)
        await collect_through_an_outage(world, patch, is_gone)
    assert str(count("charonia_dead_letters")) == "nan"
    await database_metrics.count(world.database)
    assert count("charonia_queue_depth", model="echo", priority="normal") == 1
