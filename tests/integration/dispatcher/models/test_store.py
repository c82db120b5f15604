"""A model that no Triton serves leaves the catalogue, and its jobs fail."""

from uuid import UUID

import pytest

from common.jobs import Priority, Status
from common.postgres.database import Database
from services.dispatcher.maintenance.reconciler import Reconciler
from services.dispatcher.triton.client import ModelVersion
from tests.integration.jobs import TRACEPARENT, claim, look, submit
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


async def test_the_reconciler_knows_the_queues_of_retired_models(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    served, retired = [await submit(database, tenant, model=model) for model in ("echo", "gone")]
    await stores.models.save_models([(NEW, True)])
    async with stores.reconciler.try_lock() as connection:
        assert connection is not None
        found = await stores.reconciler.find_waiting_queues(connection, 0.0, 10)
    assert found == [("echo", Priority.NORMAL, [TRACEPARENT], True), ("gone", Priority.NORMAL, [TRACEPARENT], False)]
    assert [job.row.id for job, _ in await stores.reconciler.find_unserved(["gone"], 10)] == [retired]
    await claim(database, retired)
    assert await stores.reconciler.find_unserved(["gone"], 10) == []
    assert (await look(database, served)).status is Status.QUEUED


async def test_a_job_of_a_retired_model_fails(database: Database, stores: Stores, tenant: UUID) -> None:
    waiting, running = await submit(database, tenant), await submit(database, tenant)
    await claim(database, running)
    await stores.models.save_models([(OLD, False), (NEW, False)])
    assert len(await retire(database, stores)) == 2
    world = World(database, tenant)
    reconciler = Reconciler(stores.reconciler, world.recorder, world.publisher, world.wake_ups)
    assert await reconciler.reconcile(0.0) == 0
    state = await look(database, waiting)
    assert (state.status, state.error_code, state.attempt) == (Status.FAILED, "model_unavailable", 0)
    (event,) = await database.fetch("SELECT type FROM events WHERE job_id = $1", waiting)
    assert event["type"] == "job.failed"
    assert (await look(database, running)).status is Status.PROCESSING


async def test_one_dispatcher_at_a_time_reconciles(stores: Stores) -> None:
    async with stores.reconciler.try_lock() as first, stores.reconciler.try_lock() as second:
        assert (first is None, second is None) == (False, True)
