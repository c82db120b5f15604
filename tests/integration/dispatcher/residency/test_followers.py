"""Each dispatcher of a Triton keeps back the jobs of models that are about to be unloaded."""

import asyncio

import pytest

from common.postgres.database import Database
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.models.store import ModelStore
from services.dispatcher.residency.followers import Follower
from services.dispatcher.residency.store import ResidencyStore
from services.dispatcher.triton.model_version import ModelVersion

SERVER = "triton:8001"
ECHO = ModelVersion("echo", "1", False, 0, 1, [], [])


class Dispatcher:
    """A dispatcher that has the model `echo` ready."""

    def __init__(self, database: Database) -> None:
        self.refresh_requested = asyncio.Event()
        self.model = ServedModel("echo", self.refresh_requested)
        self.model.add_version(ECHO, 1)
        self.model.update_ready({"1"})
        store = ResidencyStore(database, SERVER, "w")
        self.follower = Follower(store, {"echo": self.model}, self.refresh_requested, ["e*", "other"], 100)

    @property
    def starts_jobs(self) -> bool:
        return self.model.available.is_set()


@pytest.fixture
async def dispatcher(database: Database) -> Dispatcher:
    await ModelStore(database, "w").save_models([(ECHO, True)])
    await database.fetch("INSERT INTO residencies (server, name, phase) VALUES ($1, 'echo', 'resident')", SERVER)
    return Dispatcher(database)


async def is_ready(database: Database) -> bool:
    (row,) = await database.fetch("SELECT ready FROM served_models")
    return bool(row["ready"])


async def set_phase(database: Database, phase: str) -> None:
    await database.fetch("UPDATE residencies SET phase = $1", phase)


async def test_the_planner_knows_which_dispatchers_have_its_triton(database: Database, dispatcher: Dispatcher) -> None:
    assert not dispatcher.follower.joined.is_set()
    await dispatcher.follower.follow()
    assert dispatcher.follower.joined.is_set()
    store = ResidencyStore(database, SERVER, "x")
    assert sorted(await store.list_patterns()) == ["e*", "other"]
    assert await ResidencyStore(database, "far:8001", "x").list_patterns() == []
    await database.fetch("UPDATE dispatchers SET seen_at = now() - interval '1 minute'")
    assert await store.list_patterns() == []
    (role,) = await database.fetch("SELECT role FROM leader_leases WHERE role LIKE 'residency%'")
    assert role["role"] == store.role


async def test_a_model_that_drains_starts_no_job_and_the_planner_knows_that(
    database: Database, dispatcher: Dispatcher
) -> None:
    await dispatcher.follower.follow()
    assert (dispatcher.starts_jobs, await is_ready(database)) == (True, True)
    dispatcher.refresh_requested.clear()
    await set_phase(database, "draining")
    await dispatcher.follower.follow()
    assert (dispatcher.starts_jobs, await is_ready(database)) == (False, False)
    assert dispatcher.refresh_requested.is_set()
    await set_phase(database, "resident")  # it was taken back
    await dispatcher.follower.follow()
    assert dispatcher.starts_jobs


async def test_a_model_starts_jobs_only_once_triton_has_it_again(database: Database, dispatcher: Dispatcher) -> None:
    await set_phase(database, "draining")
    await dispatcher.follower.follow()
    dispatcher.model.update_ready(set())
    for phase in ("absent", "loading", "resident"):
        await set_phase(database, phase)
        await dispatcher.follower.follow()
        assert not dispatcher.starts_jobs
    dispatcher.model.update_ready({"1"})
    assert dispatcher.starts_jobs


async def test_a_lost_answer_is_made_good_by_the_catalogue(database: Database, dispatcher: Dispatcher) -> None:
    """The follower asks for a refresh, which saves that the model is not ready."""
    await dispatcher.follower.follow()
    await set_phase(database, "draining")
    dispatcher.model.drain()  # as if the statement after it had failed
    dispatcher.refresh_requested.clear()
    await dispatcher.follower.follow()
    assert dispatcher.refresh_requested.is_set()
