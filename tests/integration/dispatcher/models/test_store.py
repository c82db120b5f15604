"""A model that no Triton serves leaves the catalogue, and its jobs fail."""

from uuid import UUID

import pytest

from common.job_states import Priority, Status
from common.jobs.expire import find_unserved
from common.postgres.database import Database
from common.rabbitmq.messages import QueuedJob
from common.tensors import Datatype, Signature
from services.dispatcher.maintenance.reconciler.reconciler import Reconciler
from services.dispatcher.maintenance.reconciler.store import WaitingQueue, find_waiting_queues
from services.dispatcher.models.store import ModelStore
from services.dispatcher.triton.model_version import ModelVersion
from services.gateway.models.store import ModelStore as Catalogue
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
    await database.fetch("UPDATE served_models SET missing_since = missing_since - interval '1 hour'")
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
    await database.fetch("UPDATE served_models SET updated_at = now() - interval '31 seconds' WHERE version = '2'")
    assert await retire(database, stores) == [("echo", "2")]


async def test_a_version_that_a_live_triton_may_load_is_not_retired(database: Database, stores: Stores) -> None:
    await stores.sessions.note_liveness("w")
    await stores.models.save_models([(OLD, False), (NEW, False)], in_repository=[("echo", "1")])
    assert await retire(database, stores) == [("echo", "2")]
    assert await retire(database, stores) == []
    await database.fetch("UPDATE dispatchers SET seen_at = now() - interval '1 hour'")  # nobody knows what it has now
    assert await retire(database, stores) == [("echo", "1")]


async def test_a_version_in_the_repository_is_known_by_what_any_dispatcher_saw(
    database: Database, stores: Stores
) -> None:
    declared = ModelVersion(
        "big", "3", True, 4, 2, [Signature("x", Datatype.FP32, [-1])], [], {"charonia.keep": "true"}
    )
    later = ModelStore(database, "later")
    assert await later.find_known(["big", "echo"]) == [OLD, NEW]
    await stores.models.save_models([(declared, True)])
    assert await later.find_known(["big"]) == [declared]
    await later.save_models([(declared, False)])
    assert len(await database.fetch("SELECT FROM served_models WHERE worker = 'later'")) == 0
    await later.save_models([(declared, False)], in_repository=[("big", "3")])
    assert len(await database.fetch("SELECT FROM served_models WHERE worker = 'later'")) == 1
    await database.fetch("""UPDATE served_models SET inputs = '[{"name": "x", "datatype": "FP8", "shape": [1]}]'""")
    assert await later.find_known(["big"]) == []  # a later release wrote it


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
    assert await find_waiting_queues(database, 0.0, 10) == [
        WaitingQueue("echo", Priority.NORMAL, [QueuedJob(tenant, served)], [TRACEPARENT], known=True),
        WaitingQueue("gone", Priority.NORMAL, [QueuedJob(tenant, retired)], [TRACEPARENT], known=False),
    ]
    assert [job.id for job, _ in await find_unserved(database, ["gone"], 10)] == [retired]
    await claim(database, retired)
    assert await find_unserved(database, ["gone"], 10) == []
    assert (await look(database, served)).status is Status.QUEUED


async def test_a_job_of_a_retired_model_fails(database: Database, stores: Stores, tenant: UUID) -> None:
    waiting, running = await submit(database, tenant), await submit(database, tenant)
    await claim(database, running)
    await stores.models.save_models([(OLD, False), (NEW, False)])
    assert len(await retire(database, stores)) == 2
    world = World(database, tenant)
    reconciler = Reconciler(database, world.recorder, world.publisher, world.wake_ups)
    assert await reconciler.reconcile(0.0) == 0
    state = await look(database, waiting)
    assert (state.status, state.error_code, state.attempt) == (Status.FAILED, "model_unavailable", 0)
    (event,) = await database.fetch("SELECT type FROM events WHERE job_id = $1", waiting)
    assert event["type"] == "job.failed"
    assert (await look(database, running)).status is Status.PROCESSING


SESSION, OTHER_SESSION = 7, 8
WAS, IS = (ModelVersion("echo", "1", False, 0, 1, [Signature(name, Datatype.FP32, [1])], []) for name in ("was", "is"))


@pytest.fixture
def dispatchers(database: Database) -> tuple[ModelStore, ModelStore]:
    """Two dispatchers, each with a Triton of its own and a lock that nobody holds."""
    return ModelStore(database, "first", lambda: SESSION), ModelStore(database, "second", lambda: OTHER_SESSION)


async def read(database: Database) -> list[tuple[bool, str]]:
    """Return whether the model is ready, and its input, as a gateway sees them."""
    return [(model.ready, model.inputs[0].name) for model in await Catalogue(database).list_models()]


async def count_rows(database: Database) -> int:
    return len(await database.fetch("SELECT FROM served_models"))


async def test_a_dispatcher_without_a_model_does_not_hide_it(
    database: Database, dispatchers: tuple[ModelStore, ModelStore]
) -> None:
    first, second = dispatchers
    await second.save_models([(WAS, True)])
    await first.save_models([(IS, True)])
    for _ in range(2):
        await second.save_models([(WAS, False)])
        assert await read(database) == [(True, "is")]
    await first.save_models([(IS, False)])
    assert await read(database) == [(False, "is")]


async def test_the_newest_declaration_counts_whoever_saves_last(
    database: Database, dispatchers: tuple[ModelStore, ModelStore]
) -> None:
    first, second = dispatchers
    await first.save_models([(WAS, True)])
    await second.save_models([(WAS, True)])
    await second.save_models([(IS, True)])
    await first.save_models([(WAS, True)])
    assert await read(database) == [(True, "is")]


async def test_the_models_of_a_lost_dispatcher_are_not_ready(
    database: Database, dispatchers: tuple[ModelStore, ModelStore]
) -> None:
    first, second = dispatchers
    stores = Stores(database)
    await first.save_models([(WAS, True)])
    await second.save_models([(IS, True)])
    assert await stores.sessions.find_free_sessions(0) == {0, SESSION, OTHER_SESSION}
    await stores.sessions.forget_models([OTHER_SESSION])
    assert await stores.sessions.find_free_sessions(0) == {0, SESSION}
    assert await read(database) == [(True, "was")]
    assert await first.retire_models(NEVER) == []
    assert await count_rows(database) == 1


async def test_the_last_row_of_a_version_stays_until_it_is_retired(
    database: Database, dispatchers: tuple[ModelStore, ModelStore]
) -> None:
    await dispatchers[0].save_models([(IS, True)])
    await Stores(database).sessions.forget_models([SESSION])
    assert await dispatchers[1].retire_models(NEVER) == []
    assert await read(database) == [(False, "is")]
    await dispatchers[1].save_models([(WAS, True)])
    assert await dispatchers[1].retire_models(0.0) == []
    assert (await read(database), await count_rows(database)) == ([(True, "was")], 1)


async def test_a_model_that_is_back_counts_as_missing_anew(
    database: Database, dispatchers: tuple[ModelStore, ModelStore]
) -> None:
    """Also if the dispatcher that lost it still lacks it."""
    first, second = dispatchers
    await first.save_models([(IS, True)])
    await first.save_models([(IS, False)])
    assert await first.retire_models(NEVER) == []
    await database.fetch("UPDATE served_models SET missing_since = missing_since - interval '1 hour'")
    await second.save_models([(IS, True)])
    assert await first.retire_models(3000.0) == []
    await second.save_models([(IS, False)])
    assert await first.retire_models(3000.0) == []
    assert await count_rows(database) == 2
