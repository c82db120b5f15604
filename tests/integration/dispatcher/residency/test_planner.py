"""The leader decides by the rows and by Triton's index, and acts only while it leads."""

from typing import Any
from uuid import UUID

import pytest

from common.errors import Unavailable
from common.postgres.database import Database
from common.postgres.leadership import LeaseStore
from services.dispatcher.models.store import ModelStore
from services.dispatcher.quarantines.store import QuarantineStore
from services.dispatcher.residency.rule import TOO_LARGE
from services.dispatcher.residency.store import NotLeading, Residency, ResidencyStore
from services.dispatcher.triton.model_version import ModelVersion
from tests.integration.dispatcher.residency.world import BUDGET, SERVER, FakeTriton, World
from tests.integration.jobs import claim, submit


@pytest.fixture
async def world(database: Database) -> World:
    world = World(database, FakeTriton("a", "b", "c"))
    await world.store.join(["*"], BUDGET)
    assert (await world.lease.acquire()).held
    memory = {"charonia.memory": "100"}
    versions = [ModelVersion(name, "1", False, 0, 1, [], [], memory) for name in "abc"]
    await ModelStore(database, "w").save_models([(version, True) for version in versions])
    return world


async def test_models_are_loaded_for_jobs_and_unloaded_for_others(world: World, tenant: UUID) -> None:
    assert await world.look() == []
    await submit(world.database, tenant, model="a")
    assert await world.look() == ["load a"]
    await submit(world.database, tenant, model="b")
    assert await world.look() == ["load b"]
    assert await world.look() == []
    assert await world.phases() == {"a": "resident", "b": "resident", "c": "absent"}

    waiting_long = "UPDATE live_jobs SET run_at = now() - interval '10 minutes', model = 'c' WHERE model = 'a'"
    await world.database.fetch(waiting_long)
    assert await world.look() == []
    assert await world.phases() == {"a": "draining", "b": "resident", "c": "absent"}
    assert await world.look() == []  # a dispatcher may start jobs of it still
    await world.drained("a")
    assert await world.look() == ["unload a"]
    assert await world.look() == ["load c"]
    (row,) = await world.database.fetch("SELECT sum(memory) AS memory FROM residencies WHERE phase <> 'absent'")
    assert row["memory"] == BUDGET


async def test_a_model_that_triton_does_not_unload_serves_again(world: World, tenant: UUID) -> None:
    world.triton.states |= {"a": "READY", "b": "READY", "c": "READY"}
    world.triton.refuses = True
    assert await world.look() == []
    (draining,) = [name for name, phase in (await world.phases()).items() if phase == "draining"]
    await world.drained(draining)
    assert await world.look() == [f"unload {draining}"]
    assert await world.look() == []
    assert (await world.phases())[draining] == "resident"


async def test_a_model_whose_unload_never_ends_is_loaded_beside_it(world: World, tenant: UUID) -> None:
    """What it held is no room until Triton is started again."""
    world.triton.states |= {"b": "UNLOADING"}
    await submit(world.database, tenant, model="b")
    assert await world.look() == []
    await world.age()
    assert await world.look() == ["load b"]
    await submit(world.database, tenant, model="c")
    assert await world.look() == []  # no room
    assert (await world.phases(), await world.lost("b")) == ({"a": "absent", "b": "resident", "c": "absent"}, 100)
    world.triton.states |= {"b": ""}
    assert {*await world.look(), *await world.look()} == {"load b", "load c"}
    assert await world.lost("b") == 0


async def test_nothing_is_loaded_where_unloads_that_never_end_left_no_room(world: World, tenant: UUID) -> None:
    world.triton.states |= {"a": "UNLOADING", "b": "UNLOADING"}
    await submit(world.database, tenant, model="b")
    await world.look()
    await world.age()
    assert await world.look() == []
    (row,) = await world.database.fetch("SELECT why FROM residencies WHERE place = 1")
    assert row["why"] == TOO_LARGE


async def test_a_job_that_runs_for_long_holds_its_model(world: World, tenant: UUID) -> None:
    world.triton.states |= {"a": "UNLOADING"}
    job = await submit(world.database, tenant, model="a")
    await claim(world.database, job)
    await world.database.fetch("UPDATE live_jobs SET worker = 'w'")
    await submit(world.database, tenant, model="a")
    await world.look()
    await world.age()
    assert await world.look() == []
    assert await world.phases() == {"a": "draining", "b": "absent", "c": "absent"}


async def test_a_drain_is_taken_back_when_nobody_needs_the_room(world: World, tenant: UUID) -> None:
    world.triton.states |= {"a": "READY", "b": "READY"}
    job = await world.submit_overdue(tenant, "c")
    assert await world.look() == []
    phases = await world.phases()
    assert sorted(phases.values()) == ["absent", "draining", "resident"]
    await world.database.fetch("UPDATE live_jobs SET scheduled_at = 'infinity' WHERE id = $1", job)
    assert await world.look() == []
    assert await world.phases() == {"a": "resident", "b": "resident", "c": "absent"}


async def test_nothing_begins_without_the_lease(world: World, tenant: UUID) -> None:
    await submit(world.database, tenant, model="a")
    await world.lease.release()
    with pytest.raises(NotLeading):
        await world.look()
    assert (await LeaseStore(world.database, world.store.role).acquire()).held
    with pytest.raises(NotLeading):
        await world.look()
    assert (world.triton.calls, await world.phases()) == ([], {})


async def test_a_lost_answer_is_no_failed_load(world: World, tenant: UUID) -> None:
    class Losing(ResidencyStore):
        """Loses the answer of one save."""

        is_lost = False

        async def save(self, rows: Any, holder: str) -> None:
            await super().save(rows, holder)
            if not self.is_lost:
                self.is_lost = True
                raise Unavailable("the answer is lost")

    await submit(world.database, tenant, model="a")
    world.planner = world.make_planner(Losing(world.database, SERVER, "w"))
    with pytest.raises(Unavailable):
        await world.look()
    assert (world.triton.calls, (await world.phases())["a"]) == ([], "loading")
    assert await world.look() == ["load a"]
    (row,) = await world.database.fetch("SELECT failures FROM residencies WHERE name = 'a'")
    assert row["failures"] == 0


async def test_the_next_leader_goes_on_where_the_last_one_died(world: World, tenant: UUID) -> None:
    await world.submit_overdue(tenant, "c")
    world.triton.states |= {"a": "READY", "b": "READY"}
    await world.look()
    (draining,) = [name for name, phase in (await world.phases()).items() if phase == "draining"]
    world.planner = world.make_planner(world.store)
    await world.drained(draining)
    assert await world.look() == [f"unload {draining}"]
    world.planner = world.make_planner(world.store)
    assert await world.look() == ["load c"]


async def test_models_of_nobody_stay_and_take_their_part(world: World, tenant: UUID) -> None:
    await world.database.fetch("UPDATE dispatchers SET models = '{c,b}'")
    world.triton.states |= {"a": "READY", "b": "READY"}  # an operator loaded the first
    await world.submit_overdue(tenant, "c")
    await submit(world.database, tenant, model="a")
    await world.look()
    assert await world.phases() == {"a": "resident", "b": "draining", "c": "absent"}


async def test_what_is_known_of_a_model_of_nobody_ends_with_its_unload(world: World) -> None:
    await world.database.fetch("UPDATE dispatchers SET models = '{b}'")
    world.triton.states |= {"a": "READY"}
    await world.look()
    assert await world.phases() == {"a": "resident", "b": "absent"}
    world.triton.states |= {"a": "UNAVAILABLE"}
    world.planner = world.make_planner(world.store)
    await world.look()
    assert await world.phases() == {"b": "absent"}


async def test_a_model_in_quarantine_is_left_alone(world: World, tenant: UUID) -> None:
    world.triton.states |= {"a": "READY", "b": "READY"}
    for name in "ab":
        world.triton.quarantine.describe(name, python=True, steps=[])
        world.triton.quarantine.hold(name, "shared")
    await world.submit_overdue(tenant, "c")
    assert await world.look() == []
    assert await world.phases() == {"a": "resident", "b": "resident", "c": "absent"}


async def test_nothing_gets_the_room_of_a_model_during_its_reload(world: World, tenant: UUID) -> None:
    world.triton.states |= {"a": "READY", "b": "READY"}
    await world.look()
    await world.submit_overdue(tenant, "c")
    world.triton.quarantine.hold("a", "shared")
    quarantines = QuarantineStore(world.database)
    await quarantines.begin(SERVER, {"a": None})
    assert await quarantines.claim_reloads(SERVER, 60.0, ["a"]) == ["a"]
    world.triton.quarantine.release("a", unloaded=True)
    world.triton.states["a"] = "UNAVAILABLE"
    assert await world.look() == []
    assert (await world.phases())["a"] == "loading"
    world.triton.states["a"] = "READY"
    await quarantines.save_reloads(SERVER, {"a": None})
    assert await world.look() == []
    phases = await world.phases()
    assert sorted(phases.values()) == ["absent", "draining", "resident"]  # it makes room as any other one


async def test_nothing_is_unloaded_before_it_is_known_whether_a_new_ensemble_needs_it(world: World) -> None:
    world.triton.states |= {"new": "READY", "a": "READY", "b": "READY", "c": "READY"}
    await world.look()
    assert {*(await world.phases()).values()} == {"resident"}
    steps = {"charonia.memory": "1", "steps": "a"}
    await ModelStore(world.database, "w").save_models([(ModelVersion("new", "1", False, 0, 1, [], [], steps), True)])
    await world.look()
    phases = await world.phases()
    assert (phases["a"], [*phases.values()].count("draining")) == ("resident", 2)


async def test_an_ensemble_is_loaded_only_if_its_models_fit_too(world: World, tenant: UUID) -> None:
    """Another leader described it: what it consists of is in the rows."""
    settings = {"charonia.memory": "1", "steps": "b/c"}
    both = ModelVersion("both", "1", False, 0, 1, [], [], settings)
    await ModelStore(world.database, "w").save_models([(both, True)])
    world.triton.states |= {"a": "READY", "both": ""}
    await world.database.fetch("UPDATE served_models SET settings = '{\"charonia.memory\": \"99\"}' WHERE name = 'c'")
    await world.submit_overdue(tenant, "both")
    assert await world.look() == []
    assert (await world.phases())["a"] == "draining"
    await world.drained("a")
    assert await world.look() == ["unload a"]
    assert await world.look() == ["load both"]
    world.triton.states |= {"b": "READY", "c": "READY"}  # Triton loads them with it
    await world.look()
    await world.submit_overdue(tenant, "a")
    await world.database.fetch("UPDATE live_jobs SET model = 'a'")
    await world.age()
    await world.look()
    assert await world.phases() == {"a": "absent", "b": "resident", "both": "draining", "c": "resident"}


async def test_a_model_stays_until_its_first_load_has_told_what_it_declares(database: Database) -> None:
    """Otherwise two new models would take turns for ever, if they do not fit beside each other."""
    world = World(database, FakeTriton("new", "newer"))
    await world.store.join(["*"], BUDGET)
    assert (await world.lease.acquire()).held
    (load,) = await world.look()
    first = load.removeprefix("load ")
    await world.look()
    await database.fetch(
        "UPDATE residencies SET changed_at = changed_at - interval '10 minutes' WHERE phase = 'absent'"
    )
    world.planner = world.make_planner(world.store)
    await world.look()
    assert (await world.phases())[first] == "resident"
    declared = ModelVersion(first, "1", False, 0, 1, [], [], {"charonia.memory": "150"})
    await ModelStore(database, "w").save_models([(declared, True)])
    await world.look()
    assert (await world.phases())[first] == "draining"


async def test_rows_of_models_and_tritons_that_are_gone_are_removed(world: World) -> None:
    await world.look()
    gone = Residency(name="gone", changed_at=0.0)
    await world.store.save([gone], world.lease.holder)
    await world.database.fetch("INSERT INTO residencies (server, name, phase) VALUES ('gone:1', 'a', 'absent')")
    await world.database.fetch("INSERT INTO leader_leases (role) VALUES ('residency gone:1')")
    world.planner = world.make_planner(world.store)
    await world.look()
    assert await world.phases() == {"a": "absent", "b": "absent", "c": "absent"}
    roles = await world.database.fetch("SELECT role FROM leader_leases WHERE role LIKE 'residency%'")
    assert [row["role"] for row in roles] == [world.store.role]


@pytest.mark.parametrize(("setting", "slots"), [(0, 16), (3, 3)])
async def test_a_queue_is_worked_off_by_what_triton_runs_at_once(world: World, setting: int, slots: int) -> None:
    version = ModelVersion("a", "1", False, 8, 2, [], [], {})  # batches of eight, two instances
    await ModelStore(world.database, "w", slots=setting).save_models([(version, True)])
    _, (found,) = await world.store.list_models(["a"])
    assert found.slots == slots
