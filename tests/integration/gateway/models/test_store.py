"""The catalogue in the database."""

from uuid import UUID

import pytest

from common.job_states import Priority
from common.postgres.database import Database
from common.postgres.leadership import LeaseStore
from common.tensors import Datatype, Signature
from services.dispatcher.models.store import ModelStore as DispatcherStore
from services.dispatcher.residency.store import ResidencyStore
from services.dispatcher.triton.model_version import ModelVersion
from services.gateway.models.store import ModelStore
from tests.integration.jobs import claim, submit
from tests.integration.stores import Stores
from tests.support.database.later_release import DECLARE_NEWER


@pytest.fixture
def store(database: Database) -> ModelStore:
    return ModelStore(database)


async def test_the_dispatchers_catalogue_is_what_the_gateway_reads(database: Database, store: ModelStore) -> None:
    inputs = [Signature("x", Datatype.FP32, [-1, 3]), Signature("hint", Datatype.BYTES, [1], optional=True)]
    outputs = [Signature("y", Datatype.BF16, [-1])]
    settings = {"backend": "python", "charonia.openai": "messages"}
    model = ModelVersion("ocr", "2", True, 8, 3, inputs, outputs, settings)
    dispatcher = Stores(database).models
    await dispatcher.save_models([(model, True)])
    (row,) = await store.list_models()
    assert (row.name, row.version, row.ready, row.decoupled, row.max_batch_size) == ("ocr", "2", True, True, 8)
    assert (row.inputs, row.outputs, row.settings) == (inputs, outputs, settings)
    await dispatcher.save_models([(model, False)])
    assert [each.ready for each in await store.list_models()] == [False]


async def test_a_declaration_of_a_later_release_hides_no_other_model(
    database: Database, store: ModelStore, caplog: pytest.LogCaptureFixture
) -> None:
    versions = [("ocr", "1"), ("ocr", "2"), ("other", "1")]
    models = [(ModelVersion(*each, False, 0, 1, [], []), True) for each in versions]
    await Stores(database).models.save_models(models)
    await database.fetch(DECLARE_NEWER, *versions[1])
    for _ in range(2):
        assert [(row.name, row.version) for row in await store.list_models()] == [versions[0], versions[2]]
    assert caplog.messages.count("model.unreadable") == 1


async def test_a_model_that_no_dispatcher_refreshes_is_not_ready(database: Database, store: ModelStore) -> None:
    await Stores(database).models.save_models([(ModelVersion("ocr", "1", False, 0, 1, [], []), True)])
    await database.fetch("UPDATE served_models SET updated_at = now() - interval '31 seconds'")
    assert [row.ready for row in await store.list_models()] == [False]


async def test_a_model_that_a_triton_failed_to_load_has_the_reason(database: Database, store: ModelStore) -> None:
    dispatcher, other = Stores(database).models, DispatcherStore(database, "other")
    await dispatcher.save_models([(ModelVersion("ocr", "1", False, 0, 1, [], []), True)])
    await dispatcher.save_unloaded({("ocr", "2"): "broken", ("torchy", "1"): "no torch", ("typo", ""): "no config"})
    await other.save_models([])
    await other.save_unloaded({("ocr", "1"): "broken elsewhere"})
    rows = [(row.name, row.version, row.ready, row.declared, row.reason) for row in await store.list_models()]
    assert rows == [
        ("ocr", "1", True, True, None),
        ("ocr", "2", False, False, "broken"),
        ("torchy", "1", False, False, "no torch"),
        ("typo", "", False, False, "no config"),
    ]
    await dispatcher.save_unloaded({("ocr", "2"): "still broken"})
    assert [row.reason for row in await store.list_models()] == [None, "still broken"]
    await database.fetch("UPDATE unloaded_models SET updated_at = now() - interval '31 seconds'")
    assert [(row.name, row.version) for row in await store.list_models()] == [("ocr", "1")]


async def test_a_reason_counts_only_while_its_dispatcher_lives(database: Database, store: ModelStore) -> None:
    """Nobody clears what a stopped dispatcher said last, such as that Triton is loading a model."""
    dispatcher, stopped = Stores(database).models, DispatcherStore(database, "stopped")
    for each, reason in ((dispatcher, "broken"), (stopped, "loading")):
        await each.save_models([])
        await each.save_unloaded({("ocr", "1"): reason})
    await stopped.save_unloaded({("ocr", "1"): "loading", ("gone", "1"): "loading"})
    await database.fetch("UPDATE dispatchers SET seen_at = now() - interval '9 seconds' WHERE worker = 'stopped'")
    assert [(row.name, row.reason) for row in await store.list_models()] == [("ocr", "broken")]


async def test_waiting_jobs_are_counted_by_model_and_priority(
    database: Database, store: ModelStore, tenant: UUID
) -> None:
    await submit(database, tenant)
    await submit(database, tenant)
    await submit(database, tenant, priority=Priority.LOW)
    await claim(database, await submit(database, tenant))
    assert await store.count_queued() == {("echo", "normal"): 2, ("echo", "low"): 1}


async def test_residencies_are_those_of_live_dispatchers_that_manage_memory(
    database: Database, store: ModelStore
) -> None:
    for server, worker in (("a:1", "first"), ("b:1", "gone")):
        await ResidencyStore(database, server, worker).join(["*"], 1000)
    await Stores(database).models.save_models([])  # a dispatcher that leaves its Triton as it is
    added = (
        "INSERT INTO residencies (server, name, phase, memory, load_seconds, place, expected_at, why, reason) "
        "VALUES ($1, 'ocr', 'absent', 600, 2.5, 1, now(), 'It waits.', 'no room')"
    )
    for server in ("a:1", "b:1", "c:1"):
        await database.fetch(added, server)
    await database.fetch("UPDATE dispatchers SET seen_at = now() - interval '9 seconds' WHERE worker = 'gone'")
    lease = LeaseStore(database, "residency a:1")
    assert (await lease.acquire()).held
    (found,) = await store.list_residencies()
    assert found.is_led
    assert (found.server, found.model, found.state, found.memory, found.budget) == ("a:1", "ocr", "absent", 600, 1000)
    assert (found.load_seconds, found.place, found.why, found.reason) == (2.5, 1, "It waits.", "no room")
    assert found.expected_at is not None


@pytest.mark.parametrize(
    ("is_led", "is_fit", "ready"), [(True, False, False), (False, True, False), (False, True, True)]
)
async def test_nothing_is_planned_or_loading_while_nobody_leads_or_triton_is_away(
    database: Database, store: ModelStore, is_led: bool, is_fit: bool, ready: bool
) -> None:
    residencies = ResidencyStore(database, "a:1", "first")
    await residencies.join(["*"], 1000)
    await DispatcherStore(database, "first").save_models([(ModelVersion("ocr", "1", False, 0, 1, [], []), ready)])
    await database.fetch(
        "INSERT INTO residencies (server, name, phase, place, expected_at, why) "
        "VALUES ('a:1', 'ocr', $1, 1, now(), 'It is being loaded.')",
        "resident" if ready else "loading",
    )
    lease = LeaseStore(database, residencies.role)
    if is_led:
        assert (await lease.acquire()).held
        await database.fetch("UPDATE leader_leases SET is_fit = $1 WHERE role = $2", is_fit, residencies.role)
    (found,) = await store.list_residencies()
    assert (found.is_led, found.place, found.expected_at, found.why) == (False, None, None, None)
    assert found.state == ("resident" if ready else "absent")


async def test_a_dispatcher_that_no_longer_manages_memory_shows_no_residency(
    database: Database, store: ModelStore
) -> None:
    residencies = ResidencyStore(database, "a:1", "first")
    await residencies.join(["*"], 1000)
    await database.fetch("INSERT INTO residencies (server, name, phase) VALUES ('a:1', 'ocr', 'resident')")
    assert len(await store.list_residencies()) == 1
    await residencies.leave()
    assert await store.list_residencies() == []


async def test_why_a_load_failed_comes_before_what_triton_says_of_it(database: Database, store: ModelStore) -> None:
    dispatcher = DispatcherStore(database, "first")
    await ResidencyStore(database, "a:1", "first").join(["*"], 1000)
    await dispatcher.save_models([(ModelVersion("ocr", "1", False, 0, 1, [], []), False)], in_repository=[("ocr", "1")])
    await dispatcher.save_unloaded({("new", ""): "it is new"})
    assert [(each.name, each.reason) for each in await store.list_models()] == [("new", "it is new"), ("ocr", None)]
    failed = "INSERT INTO residencies (server, name, phase, reason) VALUES ($1, $2, 'absent', $3)"
    for name, reason in (("new", "it is too large"), ("ocr", "no room")):
        await database.fetch(failed, "a:1", name, reason)
        await database.fetch(failed, "gone:1", name, "a dead dispatcher said so")
    found = [(each.name, each.declared, each.reason) for each in await store.list_models()]
    assert found == [("new", False, "it is too large"), ("ocr", True, "no room")]
