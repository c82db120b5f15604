"""A model that no Triton has any more: nothing waits for it for ever."""

from uuid import UUID

import pytest

from common.database import Database
from common.jobs import Status
from services.dispatcher.store import Due, Store
from services.dispatcher.triton import Model
from tests.integration.jobs import claim, look, make_due, submit
from tests.integration.world import World

NEVER = 1e9  # seconds
OLD, NEW = (Model("echo", version, False, 0, 1, [], []) for version in "12")


@pytest.fixture
async def store(database: Database) -> Store:
    store = Store(database)
    await store.save_models([(OLD, True), (NEW, True)])
    return store


async def retire(database: Database, store: Store) -> list[tuple[str, str]]:
    """As after an hour in which nothing else happened."""
    assert await store.retire_models(NEVER) == []
    await database.fetch("UPDATE models SET missing_since = missing_since - interval '1 hour'")
    return await store.retire_models(3000.0)


async def test_only_what_has_been_missing_for_the_grace_is_retired(database: Database, store: Store) -> None:
    assert await retire(database, store) == []
    await store.save_models([(OLD, False), (NEW, True)])
    assert await store.retire_models(0.0) == []  # missing from now on
    assert await retire(database, store) == [("echo", "1")]


async def test_a_version_that_comes_back_in_time_is_not_missed(database: Database, store: Store) -> None:
    await store.save_models([(OLD, False), (NEW, False)])
    assert await store.retire_models(NEVER) == []
    await store.save_models([(OLD, True), (NEW, True)])
    assert await retire(database, store) == []


async def test_a_version_that_no_dispatcher_refreshes_is_missed(database: Database, store: Store) -> None:
    await database.fetch("UPDATE models SET updated_at = now() - interval '31 seconds' WHERE version = '2'")
    assert await retire(database, store) == [("echo", "2")]


async def test_another_dispatcher_does_not_bring_back_what_it_has_not_ready(database: Database, store: Store) -> None:
    await store.save_models([(OLD, False), (NEW, True)])
    await retire(database, store)
    await store.save_models([(OLD, False), (NEW, True)])
    assert [row["version"] for row in await database.fetch("SELECT version FROM models")] == ["2"]
    await store.save_models([(OLD, True), (NEW, True)])
    assert len(await database.fetch("SELECT version FROM models")) == 2


async def test_jobs_are_not_rung_for_once_their_version_is_retired(
    database: Database, store: Store, tenant: UUID
) -> None:
    any_version, old, new = [await submit(database, tenant, version=version) for version in (None, "1", "2")]
    await store.save_models([(OLD, False), (NEW, True)])
    await retire(database, store)
    for job in (any_version, old, new):
        await make_due(database, job)
    due = await store.ring_due(10)
    assert (len(due.rung), due.stranded) == (2, [old])
    assert await store.ring_due(10) == Due([], [])


async def test_the_sweeper_fails_a_job_of_a_retired_model(database: Database, store: Store, tenant: UUID) -> None:
    waiting, running = await submit(database, tenant), await submit(database, tenant)
    await claim(database, running)
    await store.save_models([(OLD, False), (NEW, False)])
    assert len(await retire(database, store)) == 2
    await make_due(database, waiting)
    await World(database, tenant).sweeper.sweep()
    state = await look(database, waiting)
    assert (state.status, state.error_code, state.attempt) == (Status.FAILED, "model_unavailable", 0)
    (event,) = await database.fetch("SELECT type FROM events WHERE job_id = $1", waiting)
    assert event["type"] == "job.failed"
    assert (await look(database, running)).status is Status.PROCESSING


async def test_a_stranded_job_that_was_claimed_meanwhile_is_left_alone(
    database: Database, store: Store, tenant: UUID
) -> None:
    job = await submit(database, tenant)
    ((found, _),) = await store.find_queued([job])
    assert found.row.id == job
    await claim(database, job)
    assert await store.find_queued([job]) == []
