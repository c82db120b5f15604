"""Why a queued job waits, from the rows that dispatchers and operators write."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common.job_states import Status
from common.jobs.requeue import requeue_jobs
from common.postgres.database import Database
from common.postgres.leadership import LeaseStore
from common.views.job import format_time
from common.views.job_parts import WaitingFor
from services.dispatcher.models.store import ModelStore as DispatcherStore
from services.dispatcher.residency.store import ResidencyStore
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.unloaded import Unloaded
from services.gateway.jobs.store import JobStore
from services.gateway.jobs.wait_reasons import WaitExplainer
from services.gateway.models.store import ModelStore
from services.gateway.models.workloads import WorkloadReader
from tests.integration.jobs import add_tenant, claim, look, new_requeue, submit
from tests.integration.stores import Stores

MODEL = ModelVersion("echo", "1", False, 0, 1, [], [])
GONE = "UPDATE dispatchers SET seen_at = now() - interval '9 seconds'"


@pytest.fixture
async def stores(database: Database) -> Stores:
    """A dispatcher with a model of one instance without batching, so it has two slots."""
    stores = Stores(database)
    await stores.models.save_models([(MODEL, True)])
    return stores


async def explain(database: Database, job: UUID, tenant: UUID) -> WaitingFor | None:
    found = await JobStore(database).find_job(job, tenant)
    assert found is not None
    return await WaitExplainer(WorkloadReader(ModelStore(database))).explain(found.row, found.queue_position)


async def read_code(database: Database, job: UUID, tenant: UUID) -> str | None:
    found = await explain(database, job, tenant)
    return found.code if found else None


async def run(database: Database, tenant: UUID, count: int) -> Sequence[UUID]:
    jobs = [await submit(database, tenant) for _ in range(count)]
    for job in jobs:
        await claim(database, job)
    return jobs


async def test_a_job_waits_for_a_slot_behind_others(database: Database, stores: Stores, tenant: UUID) -> None:
    running = await run(database, tenant, 2)
    first, second = sorted([await submit(database, tenant) for _ in range(2)])
    assert await explain(database, first, tenant) == WaitingFor("slot", "2 of 2 slots busy, 0 ahead")
    assert await explain(database, second, tenant) == WaitingFor("slot", "2 of 2 slots busy, 1 ahead")
    assert await explain(database, running[0], tenant) is None


@pytest.mark.parametrize(
    "unloaded", [{("echo", "1"): "Triton could not load it"}, {}], ids=["the model broke", "Triton is away"]
)
async def test_a_dispatcher_that_started_without_the_model_waits_for_triton(
    database: Database, stores: Stores, tenant: UUID, unloaded: Unloaded
) -> None:
    await database.fetch(GONE)
    job = await submit(database, tenant)
    started = DispatcherStore(database, "started")
    await started.save_models([])
    await started.save_unloaded(unloaded)
    assert await read_code(database, job, tenant) == "triton"
    await started.save_models([(ModelVersion("other", "1", False, 0, 1, [], []), True)])
    assert await read_code(database, job, tenant) == ("triton" if unloaded else "dispatcher")
    await database.fetch(GONE)
    assert await read_code(database, job, tenant) == "dispatcher"


async def test_slots_of_all_live_dispatchers_count(database: Database, stores: Stores, tenant: UUID) -> None:
    other = ModelVersion("echo", "2", False, 4, 1, [], [])
    await DispatcherStore(database, "second").save_models([(MODEL, True), (other, True)])
    await DispatcherStore(database, "third").save_models([(MODEL, False)])
    await run(database, tenant, 1)
    job = await submit(database, tenant)
    assert await explain(database, job, tenant) == WaitingFor("slot", "1 of 10 slots busy, 0 ahead")
    await database.fetch(f"{GONE} WHERE worker = 'second'")
    assert await explain(database, job, tenant) == WaitingFor("slot", "1 of 2 slots busy, 0 ahead")


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ("max_running = 1", "1 of 1 slots busy, 0 ahead"),
        ("max_running_per_tenant = 1", "1 of 1 slots of your tenant busy, 0 ahead"),
        ("max_running = 5", "1 of 2 slots busy, 0 ahead"),
    ],
)
async def test_limits_of_operators_count_as_slots(
    database: Database, stores: Stores, tenant: UUID, limits: str, text: str
) -> None:
    await database.fetch("INSERT INTO model_limits (model) VALUES ('echo')")
    await database.fetch(f"UPDATE model_limits SET {limits}")  # noqa: S608 -- a constant
    await run(database, tenant, 1)
    assert await explain(database, await submit(database, tenant), tenant) == WaitingFor("slot", text)


async def test_free_slots_that_a_dispatcher_does_not_use_have_a_reason(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    await stores.models.save_models([(MODEL, True)], limits={"echo": "its queue is full"})
    await run(database, tenant, 1)
    job = await submit(database, tenant)
    assert await explain(database, job, tenant) == WaitingFor("slot", "1 of 2 slots busy, 0 ahead; its queue is full")
    await run(database, tenant, 1)
    assert await explain(database, job, tenant) == WaitingFor("slot", "2 of 2 slots busy, 0 ahead")


async def test_a_scheduled_job_waits_for_its_time(database: Database, stores: Stores, tenant: UUID) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    job = await submit(database, tenant, run_at=at)
    assert await explain(database, job, tenant) == WaitingFor("schedule", f"scheduled for {format_time(at)}")


async def test_a_failed_attempt_is_backed_off(database: Database, stores: Stores, tenant: UUID) -> None:
    claimed = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(claimed, delay=60.0)])
    at = (await look(database, claimed.id)).run_at
    text = f"backing off until {format_time(at)} after inference_failed"
    assert await explain(database, claimed.id, tenant) == WaitingFor("backoff", text)


async def test_a_suspect_waits_for_its_turn(database: Database, stores: Stores, tenant: UUID) -> None:
    claimed = await claim(database, await submit(database, tenant))
    await requeue_jobs(database, [new_requeue(claimed, delay=0.0, interruptions=3, probation=30.0)])
    found = await explain(database, claimed.id, tenant)
    assert found is not None
    assert (found.code, found.detail.partition(";")[0]) == (
        "probation",
        "suspected of stopping Triton or its dispatcher",
    )


async def test_a_suspect_that_runs_alone_holds_back_the_models_of_its_dispatcher(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    await claim(database, await submit(database, tenant, model="other"))
    await database.fetch("UPDATE jobs SET probation = 60, interruptions = 3")
    job = await submit(database, tenant)
    assert await read_code(database, job, tenant) == "slot"
    await database.fetch("UPDATE jobs SET interruptions = 4 WHERE model = 'other'")
    text = "a job that may have stopped Triton runs alone on a dispatcher of this model, for five minutes at most"
    assert await explain(database, job, tenant) == WaitingFor("probation", text)
    await DispatcherStore(database, "another").save_models([(MODEL, True)])
    await database.fetch("UPDATE jobs SET worker = 'gone' WHERE model = 'other'")
    assert await read_code(database, job, tenant) == "slot"


async def test_pauses_by_operators_are_named(database: Database, stores: Stores, tenant: UUID) -> None:
    job = await submit(database, tenant)
    await database.fetch("INSERT INTO model_limits (model, paused_at) VALUES ('echo', now())")
    assert await explain(database, job, tenant) == WaitingFor("paused", "an operator paused the model")
    await database.fetch("UPDATE tenants SET paused_at = now() WHERE id = $1", tenant)
    assert await explain(database, job, tenant) == WaitingFor("paused", "an operator paused your tenant")
    stranger = await add_tenant(database, "stranger")
    found = await explain(database, await submit(database, stranger), stranger)
    assert found == WaitingFor("paused", "an operator paused the model")


async def test_a_dispatcher_that_says_nothing_is_gone(database: Database, stores: Stores, tenant: UUID) -> None:
    """Dead or frozen: its models are not ready, and have no slots."""
    job = await submit(database, tenant)
    await database.fetch(GONE)
    (row,) = await database.fetch("SELECT seen_at FROM dispatchers")
    text = f"no dispatcher has this model since {format_time(row['seen_at'])}: none runs, or Triton lost it"
    assert await explain(database, job, tenant) == WaitingFor("dispatcher", text)
    assert [model.ready for model in await ModelStore(database).list_models()] == [False]
    await stores.sessions.note_liveness("w")
    assert await explain(database, job, tenant) == WaitingFor("slot", "0 of 2 slots busy, 0 ahead")
    assert [model.ready for model in await ModelStore(database).list_models()] == [True]


async def test_a_scheduled_job_that_is_due_waits_for_a_dispatcher(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    job = await submit(database, tenant)
    await database.fetch("UPDATE jobs SET run_at = now(), scheduled_at = now()")
    await database.fetch(GONE)
    found = await explain(database, job, tenant)
    assert found is not None
    assert found.code == "dispatcher"


async def test_a_model_that_no_dispatcher_knows(database: Database, stores: Stores, tenant: UUID) -> None:
    job = await submit(database, tenant, model="other")
    assert await explain(database, job, tenant) == WaitingFor(
        "dispatcher", "no dispatcher has this model: none runs, or Triton lost it"
    )


async def test_a_model_that_triton_lacks(database: Database, stores: Stores, tenant: UUID) -> None:
    await stores.models.save_models([(MODEL, False)])
    text = "Triton is away, or does not have the model ready"
    assert await explain(database, await submit(database, tenant), tenant) == WaitingFor("triton", text)


async def test_a_model_that_does_not_load_has_the_reason(database: Database, stores: Stores, tenant: UUID) -> None:
    """That of the newest version, as of a dispatcher that says it again and again."""
    await stores.models.save_models([(MODEL, False)])
    await stores.models.save_unloaded({("echo", "9"): "old", ("echo", "10"): "no torch", ("other", "11"): "no config"})
    text = "Triton does not have the model ready. no torch"
    job = await submit(database, tenant)
    assert await explain(database, job, tenant) == WaitingFor("triton", text)
    await database.fetch("UPDATE unloaded_models SET updated_at = now() - interval '31 seconds'")
    text = "Triton is away, or does not have the model ready"
    assert await explain(database, job, tenant) == WaitingFor("triton", text)


async def test_a_reason_is_not_that_of_a_dead_dispatcher(database: Database, stores: Stores, tenant: UUID) -> None:
    dead = DispatcherStore(database, "dead")
    await dead.save_models([])
    await dead.save_unloaded({("echo", "2"): "Triton is loading it"})
    await database.fetch(GONE)
    await stores.models.save_models([(MODEL, False)])
    text = "Triton is away, or does not have the model ready"
    assert await explain(database, await submit(database, tenant), tenant) == WaitingFor("triton", text)


async def test_a_model_that_triton_is_to_load(database: Database, stores: Stores, tenant: UUID) -> None:
    await stores.models.save_models([(MODEL, False)], in_repository=[("echo", "1")])
    await ResidencyStore(database, "triton:1", "w").join(["*"], 1000)
    await database.fetch(
        "INSERT INTO residencies (server, name, phase, place, expected_at) "
        "VALUES ('triton:1', 'echo', 'absent', 2, now() + interval '1 hour')"
    )
    job = await submit(database, tenant)
    assert await read_code(database, job, tenant) == "triton", "nobody plans the loads"
    assert (await LeaseStore(database, "residency triton:1").acquire()).held
    text = "the model is not loaded; it is number 2 of those to be loaded, and can probably run in 60 min"
    assert await explain(database, job, tenant) == WaitingFor("model_loading", text)
    await database.fetch("INSERT INTO model_limits (model, paused_at) VALUES ('echo', now())")
    assert await read_code(database, job, tenant) == "paused"


async def test_an_ended_job_waits_for_nothing(database: Database, stores: Stores, tenant: UUID) -> None:
    job = await submit(database, tenant)
    await database.fetch("UPDATE jobs SET status = 'canceled', generation = 1, finished_at = now()")
    assert await explain(database, job, tenant) is None
    assert (await look(database, job)).status is Status.CANCELED
