"""Which jobs count as demand for a model."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common.job_states import Priority
from common.postgres.database import Database
from services.dispatcher.residency import demand_store
from services.dispatcher.residency.demand_store import NO_DEMAND, Demand, measure_demand
from tests.integration.jobs import add_tenant, submit, take

SERVER = "triton:8001"
NAMES = ["echo", "other"]


async def measure(database: Database, model: str = "echo") -> Demand:
    return (await measure_demand(database, SERVER, NAMES)).get(model, NO_DEMAND)


@pytest.fixture
async def dispatcher(database: Database) -> None:
    await database.fetch("INSERT INTO dispatchers (worker, server) VALUES ('w', $1), ('far', 'far:8001')", SERVER)


async def test_what_waits_and_what_runs_counts(database: Database, tenant: UUID, dispatcher: None) -> None:
    assert await measure(database) == NO_DEMAND
    low = await submit(database, tenant, priority=Priority.LOW)
    second = await add_tenant(database, "second")
    await submit(database, second, expires_in=100.0)
    await submit(database, second, model="unasked")
    (oldest,) = await database.fetch("SELECT run_at, now() FROM live_jobs WHERE id = $1", low)
    found = await measure(database)
    assert (found.waiting, found.running, found.priority) == (2, 0, Priority.NORMAL)
    assert found.since == pytest.approx(oldest["run_at"].timestamp(), abs=1e-3)
    assert found.deadline == pytest.approx(oldest["now"].timestamp() + 100, abs=60)
    assert await measure(database, "other") == NO_DEMAND

    assert len(await take(database, 5, priority=Priority.LOW)) == 1
    found = await measure(database)
    assert (found.waiting, found.running) == (1, 1)
    await database.fetch("UPDATE live_jobs SET worker = 'far' WHERE worker = 'w'")
    assert (await measure(database)).running == 0  # at another Triton


async def test_what_may_not_start_does_not_count(database: Database, tenant: UUID) -> None:
    paused = await add_tenant(database, "paused")
    await database.fetch("UPDATE tenants SET paused_at = now() WHERE id = $1", paused)
    await submit(database, paused)
    await submit(database, tenant, run_at=datetime.now(UTC) + timedelta(hours=1))
    expired = await submit(database, tenant, expires_in=100.0)
    await database.fetch("UPDATE live_jobs SET expires_at = now() WHERE id = $1", expired)
    assert await measure(database) == NO_DEMAND
    await submit(database, tenant)
    assert (await measure(database)).waiting == 1
    await database.fetch("INSERT INTO model_limits (model, paused_at) VALUES ('echo', now())")
    assert await measure(database) == NO_DEMAND


async def test_a_suspect_counts_although_it_is_claimable_only_once_its_model_is_ready(
    database: Database, tenant: UUID
) -> None:
    suspect = await submit(database, tenant)
    suspected = "UPDATE live_jobs SET probation = 60, interruptions = 3, scheduled_at = now() + interval '1 hour'"
    await database.fetch(f"{suspected} WHERE id = $1", suspect)
    assert await measure(database) == NO_DEMAND
    await database.fetch("UPDATE live_jobs SET scheduled_at = now() WHERE id = $1", suspect)
    assert (await measure(database)).waiting == 1


async def test_the_count_is_bounded_and_no_paused_tenant_hides_others(
    database: Database, tenant: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demand_store, "MAX_JOBS", 3)
    monkeypatch.setattr(demand_store, "MAX_TENANTS", 1)
    await database.fetch("UPDATE tenants SET paused_at = now() WHERE id = $1", tenant)  # it comes first
    for owner, count in ((tenant, 4), (await add_tenant(database, "second"), 5)):
        for _ in range(count):
            await submit(database, owner)
    assert (await measure(database)).waiting == 3
