"""A run that lives keeps the jobs of its steps, whatever their age: other steps may still read their outputs."""

from collections.abc import Awaitable, Callable

import pytest

from common.postgres.database import Database
from services.dispatcher.maintenance.history import history, store
from services.dispatcher.maintenance.retention import own_retention
from services.dispatcher.maintenance.retention.store import RetentionStore
from tests.integration.dispatcher.maintenance.history.past import Past
from tests.integration.runs import Runs
from tests.integration.world import World

KEEP_SHORTLY = "UPDATE tenants SET retention = 1"
SILENT = "UPDATE live_runs SET callback_url = NULL, callback_events = NULL"  # a delivery would keep the run
LONG_AGO = "UPDATE jobs SET finished_at = now() - interval '1 hour' WHERE generation > 0"


@pytest.fixture
async def runs(past: Past) -> Runs:
    world = World(past.database, past.tenant)
    await world.begin()
    return Runs(world)


async def pass_retention(past: Past, database: Database) -> None:
    await database.fetch(KEEP_SHORTLY)
    await database.fetch(LONG_AGO)
    await past.pass_time(0)  # usage is counted
    await own_retention.remove_retained(RetentionStore(database))


async def age(past: Past, database: Database) -> None:
    assert await past.age() >= 1


@pytest.mark.parametrize("let_time_pass", [pass_retention, age])
async def test_steps_stay_as_long_as_their_run_lives(
    past: Past,
    runs: Runs,
    monkeypatch: pytest.MonkeyPatch,
    let_time_pass: Callable[[Past, Database], Awaitable[None]],
) -> None:
    monkeypatch.setattr(history, "RUNS", 1)
    monkeypatch.setattr(store, "KEPT_JOBS", 1)
    _, run = await runs.begin(1), await runs.begin(1, 2)
    await past.database.fetch(SILENT)
    await runs.infer(run, "first")
    await let_time_pass(past, past.database)
    await runs.infer(run, "each")
    await let_time_pass(past, past.database)
    assert [step for step, *_ in await runs.steps(run)] == ["each", "each", "first", "last"]
    await runs.infer(run, "last")
    assert (await runs.state(run))["status"] == "succeeded"
    await let_time_pass(past, past.database)
    assert not await past.has(run)
    assert await runs.steps(run) == []
