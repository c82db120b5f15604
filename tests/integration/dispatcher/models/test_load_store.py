"""The loads in one Triton are saved once, whichever of its dispatchers sees them, and the catalogue has them."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from common.postgres.database import Database
from services.dispatcher.models.load_store import LoadStore, LoadToSave
from services.dispatcher.models.loads import Load
from services.dispatcher.models.store import ModelStore
from services.dispatcher.sessions.store import SessionStore
from services.dispatcher.triton.model_version import ModelVersion

ECHO = ("echo", "1")
DECLARED = ModelVersion("echo", "1", False, 0, 1, [], [])
OLD, NEW, OTHER = (UUID(int=number) for number in (1, 2, 3))
SERVER = "triton:8001"


async def read_loads(database: Database) -> tuple[set[UUID] | None, datetime | None]:
    """Return the loads whose results may be reused, and when the oldest of them was seen."""
    (row,) = await database.fetch("SELECT loads, loaded_at FROM models")
    return None if row["loads"] is None else set(row["loads"]), row["loaded_at"]


async def test_a_load_replaces_only_the_one_that_its_dispatcher_knew(database: Database) -> None:
    first, second = (LoadStore(database, SERVER, worker) for worker in ("first", "second"))
    saved = await first.save([LoadToSave(ECHO, OLD, None, 5)])
    assert saved[ECHO].id == OLD
    assert await second.save([LoadToSave(ECHO, OTHER, None, 0)]) == {}
    assert await second.save([LoadToSave(ECHO, NEW, OLD, 0)]) != {}
    assert await first.save([LoadToSave(ECHO, OTHER, OLD, 0)]) == {}
    found = await first.list_all()
    assert (found[ECHO].load.id, found[ECHO].executions) == (NEW, 0)
    assert found[ECHO].load.at > saved[ECHO].at  # type: ignore[operator]


async def test_two_dispatchers_that_save_at_once_agree(database: Database) -> None:
    stores = [LoadStore(database, SERVER, str(number)) for number in range(4)]
    for before in (None, OLD):
        if before is not None:
            await database.fetch("UPDATE model_loads SET load_id = $1", before)
        saved = await asyncio.gather(*(store.save([LoadToSave(ECHO, uuid4(), before, 0)]) for store in stores))
        assert [len(each) for each in saved].count(1) == 1


async def test_a_count_keeps_the_time_of_the_load(database: Database) -> None:
    store = LoadStore(database, SERVER, "w")
    load = (await store.save([LoadToSave(ECHO, OLD, None, 5)]))[ECHO]
    assert (await store.save([LoadToSave(ECHO, OLD, OLD, 9)])) == {ECHO: load}
    assert (await store.list_all())[ECHO].executions == 9


async def test_tritons_do_not_share_loads(database: Database) -> None:
    await LoadStore(database, SERVER, "w").save([LoadToSave(ECHO, OLD, None, 5)])
    other = LoadStore(database, "triton-2:8001", "w")
    assert await other.list_all() == {}
    assert await other.save([LoadToSave(ECHO, NEW, None, 5)]) != {}


async def test_a_load_is_held_while_another_live_dispatcher_names_it(database: Database) -> None:
    store = LoadStore(database, SERVER, "first")
    load = (await store.save([LoadToSave(ECHO, OLD, None, 0)]))[ECHO]
    await ModelStore(database, "first").save_models([(DECLARED, True)], loads={ECHO: load})
    assert not (await store.list_all())[ECHO].held
    await ModelStore(database, "second").save_models([(DECLARED, True)], loads={ECHO: load})
    assert (await store.list_all())[ECHO].held
    await database.fetch("UPDATE dispatchers SET seen_at = now() - interval '9 seconds'")
    assert not (await store.list_all())[ECHO].held


async def test_a_load_is_held_by_a_live_dispatcher_that_has_just_saved_it(database: Database) -> None:
    """Otherwise two that start at once would not agree."""
    first, second = (LoadStore(database, SERVER, worker) for worker in ("first", "second"))
    await first.save([LoadToSave(ECHO, OLD, None, 0)])
    assert (await second.list_all())[ECHO].held
    assert not (await first.list_all())[ECHO].held
    await ModelStore(database, "first").save_models([(DECLARED, True)])
    assert not (await second.list_all())[ECHO].held
    await database.fetch("DELETE FROM served_models")
    await database.fetch("UPDATE dispatchers SET seen_at = now() - interval '9 seconds'")
    assert not (await second.list_all())[ECHO].held


async def test_loads_that_nobody_saves_for_a_day_are_forgotten(database: Database) -> None:
    store, models = LoadStore(database, SERVER, "w"), ModelStore(database, "w")
    await store.save([LoadToSave(ECHO, OLD, None, 5)])
    for hours, is_old in ((0, False), (2, True)):
        await database.fetch("UPDATE model_loads SET seen_at = seen_at - $1::interval", timedelta(hours=hours))
        await models.retire_models(60.0)
        assert (await store.list_all())[ECHO].is_old is is_old
    await store.save([LoadToSave(ECHO, OLD, OLD, 5)])
    assert not (await store.list_all())[ECHO].is_old
    await database.fetch("UPDATE model_loads SET seen_at = seen_at - interval '25 hours'")
    await models.retire_models(60.0)
    assert await store.list_all() == {}


EARLIER, LATER = (datetime(2026, 11, 28, hour, tzinfo=UTC) for hour in (1, 2))


@pytest.fixture
def dispatchers(database: Database) -> tuple[ModelStore, ModelStore]:
    return ModelStore(database, "first", lambda: 7), ModelStore(database, "second", lambda: 8)


async def test_results_of_the_loads_that_are_ready_may_be_reused(
    database: Database, dispatchers: tuple[ModelStore, ModelStore]
) -> None:
    first, second = dispatchers
    await first.save_models([(DECLARED, True)], loads={ECHO: Load(OLD, EARLIER)})
    await second.save_models([(DECLARED, True)], loads={ECHO: Load(NEW, LATER)})
    assert await read_loads(database) == ({OLD, NEW}, EARLIER)
    await first.save_models([(DECLARED, False)], loads={ECHO: Load(OLD, EARLIER)})
    assert await read_loads(database) == ({NEW}, LATER)


async def test_while_nothing_is_ready_the_last_loads_count(
    database: Database, dispatchers: tuple[ModelStore, ModelStore]
) -> None:
    """A dispatcher that died may have missed a reload that another one saw."""
    first, second = dispatchers
    await first.save_models([(DECLARED, True)], loads={ECHO: Load(OLD, EARLIER)})
    await second.save_models([(DECLARED, True)], loads={ECHO: Load(NEW, LATER)})
    for dispatcher, load in ((first, Load(OLD, EARLIER)), (second, Load(NEW, LATER))):
        await dispatcher.save_models([(DECLARED, False)], loads={ECHO: load})
    assert await read_loads(database) == ({OLD, NEW}, EARLIER)
    await SessionStore(database).forget_models([7])
    assert await read_loads(database) == ({NEW}, LATER)
    await SessionStore(database).forget_models([8])
    assert await read_loads(database) == ({NEW}, LATER)


async def test_nothing_is_reused_if_a_ready_dispatcher_does_not_know_its_load(
    database: Database, dispatchers: tuple[ModelStore, ModelStore]
) -> None:
    """One of the release before never does."""
    first, second = dispatchers
    await first.save_models([(DECLARED, True)])
    await second.save_models([(DECLARED, True)], loads={ECHO: Load(NEW, LATER)})
    assert (await read_loads(database))[0] is None
    await first.save_models([(DECLARED, False)])
    assert await read_loads(database) == ({NEW}, LATER)
