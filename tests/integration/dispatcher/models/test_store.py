"""A model that no Triton serves leaves the catalogue, and its jobs fail."""

from uuid import UUID

import pytest

from common.jobs import Status
from common.postgres.database import Database
from services.dispatcher.maintenance.sweeper_store import DueJobs
from services.dispatcher.triton.client import ModelVersion
from tests.integration.jobs import claim, look, make_due, submit
from tests.integration.stores import Stores
from tests.integration.world import World

NEVER = 1e9  # seconds
OLD, NEW = (ModelVersion("echo", version, False, 0, 1, [], []) for version in "12")


@pytest.fixture
async def stores(database: Database) -> Stores:
    stores = Stores(database)
    await stores.models.save_models([(OLD, True), (NEW, True)])
    return stores


async def retire(database: Database, stores: Stores) -> list[tuple[str, str]]:
    """Retire models after an hour in which nothing else happened."""
    assert await stores.models.retire_models(NEVER) == []
    await database.fetch("UPDATE models SET missing_since = missing_since - interval '1 hour'")
    return await stores.models.retire_models(3000.0)


async def test_only_a_version_missing_for_the_grace_period_is_retired(database: Database, stores: Stores) -> None:
    assert await retire(database, stores) == []
    await stores.models.save_models([(OLD, False), (NEW, True)])
    assert await stores.models.retire_models(0.0) == []  # missing from now on
    assert await retire(database, stores) == [("echo", "1")]


async def test_a_version_that_returns_in_time_is_not_retired(database: Database, stores: Stores) -> None:
    await stores.models.save_models([(OLD, False), (NEW, False)])
    assert await stores.models.retire_models(NEVER) == []
    await stores.models.save_models([(OLD, True), (NEW, True)])
    assert await retire(database, stores) == []


async def test_a_version_that_no_dispatcher_saves_is_retired(database: Database, stores: Stores) -> None:
    await database.fetch("UPDATE models SET updated_at = now() - interval '31 seconds' WHERE version = '2'")
    assert await retire(database, stores) == [("echo", "2")]


async def test_a_dispatcher_does_not_restore_a_version_that_it_has_not_ready(
    database: Database, stores: Stores
) -> None:
    await stores.models.save_models([(OLD, False), (NEW, True)])
    await retire(database, stores)
    await stores.models.save_models([(OLD, False), (NEW, True)])
    assert [row["version"] for row in await database.fetch("SELECT version FROM models")] == ["2"]
    await stores.models.save_models([(OLD, True), (NEW, True)])
    assert len(await database.fetch("SELECT version FROM models")) == 2


async def test_a_job_gets_no_wake_up_after_its_version_is_retired(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    any_version, old, new = [await submit(database, tenant, version=version) for version in (None, "1", "2")]
    await stores.models.save_models([(OLD, False), (NEW, True)])
    await retire(database, stores)
    for job in (any_version, old, new):
        await make_due(database, job)
    due = await stores.sweeper.take_due_jobs(10)
    assert (len(due.wake_ups), due.unserved) == (2, [old])
    assert await stores.sweeper.take_due_jobs(10) == DueJobs([], [])


async def test_the_sweeper_fails_a_job_of_a_retired_model(database: Database, stores: Stores, tenant: UUID) -> None:
    waiting, running = await submit(database, tenant), await submit(database, tenant)
    await claim(database, running)
    await stores.models.save_models([(OLD, False), (NEW, False)])
    assert len(await retire(database, stores)) == 2
    await make_due(database, waiting)
    await World(database, tenant).sweeper.sweep()
    state = await look(database, waiting)
    assert (state.status, state.error_code, state.attempt) == (Status.FAILED, "model_unavailable", 0)
    (event,) = await database.fetch("SELECT type FROM events WHERE job_id = $1", waiting)
    assert event["type"] == "job.failed"
    assert (await look(database, running)).status is Status.PROCESSING


async def test_an_unserved_job_that_was_claimed_in_the_meantime_is_not_failed(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    job = await submit(database, tenant)
    ((found, _),) = await stores.sweeper.find_queued([job])
    assert found.row.id == job
    await claim(database, job)
    assert await stores.sweeper.find_queued([job]) == []
