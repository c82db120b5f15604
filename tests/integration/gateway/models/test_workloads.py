"""Slots, running jobs and recent times of models."""

from datetime import timedelta
from uuid import UUID

from common.postgres.database import Database
from services.dispatcher.models.store import ModelStore as DispatcherStore
from services.dispatcher.triton.model_version import ModelVersion
from services.gateway.models.store import RECENT_JOBS, ModelStore, Recent
from services.gateway.models.workloads import WorkloadReader
from tests.integration.jobs import add_tenant, claim, submit
from tests.integration.stores import Stores

ENDED = """
WITH new AS (
  INSERT INTO jobs (id, tenant_id, model, priority, status, max_attempts, timeout, initial_delay, max_delay,
                    traceparent, created_at, run_at, started_at, finished_at, generation, inference_ms, tensors)
  SELECT gen_random_uuid(), $1, 'echo', 'normal', 'succeeded', 3, 600, 1, 300, '',
         now() - $3::interval, now() - $3::interval, now() - $3::interval + number * interval '1 millisecond', now(),
         current_generation(), 10 * number, ''
  FROM generate_series(1, $2::integer) number
  RETURNING id
)
SELECT count(*) FROM new
"""


class CountingStore(ModelStore):
    looks = 0

    async def count_running(self) -> dict[tuple[str, UUID], int]:
        self.looks += 1
        return await super().count_running()


async def test_running_jobs_are_counted_by_model_and_tenant(database: Database, tenant: UUID) -> None:
    stranger = await add_tenant(database, "stranger")
    for owner in (tenant, tenant, stranger):
        await claim(database, await submit(database, owner))
    await submit(database, tenant)
    await Stores(database).models.save_models([(ModelVersion("echo", "1", False, 8, 2, [], []), True)])
    now, clock = 0.0, lambda: now
    store = CountingStore(database)
    reader = WorkloadReader(store, clock)
    for _ in range(3):
        found = await reader.read()
    assert (found.models["echo"].slots, found.running) == (32, {"echo": 3})
    assert found.running_of_tenants == {("echo", tenant): 2, ("echo", stranger): 1}
    assert store.looks == 1
    now = 1.1
    await reader.read()
    assert store.looks == 2


async def test_a_setting_of_slots_is_what_gateways_see(database: Database) -> None:
    store = DispatcherStore(database, "w", slots=5)
    await store.save_models([(ModelVersion("echo", "1", False, 8, 2, [], []), True)])
    assert [each.slots for each in await ModelStore(database).list_workloads()] == [5]


async def test_recent_times_are_of_the_tenants_own_latest_jobs(database: Database, tenant: UUID) -> None:
    store, stranger = ModelStore(database), await add_tenant(database, "stranger")
    assert await store.measure_recent(tenant, "echo") == Recent(jobs=0, queue_ms=None, inference_ms=None)
    await database.fetch(ENDED, tenant, 100, timedelta(minutes=1))
    expected = Recent(jobs=100, queue_ms=[50.0, 95.0], inference_ms=[500.0, 950.0])
    await database.fetch(ENDED, stranger, 1000, timedelta(minutes=1))
    await database.fetch(ENDED, tenant, 1000, timedelta(hours=2))
    assert await store.measure_recent(tenant, "echo") == expected
    await database.fetch(ENDED, tenant, 1000, timedelta(seconds=1))
    assert (await store.measure_recent(tenant, "echo")).jobs == RECENT_JOBS


async def test_dispatchers_that_are_gone_for_a_day_are_forgotten(database: Database) -> None:
    stores = Stores(database)
    await stores.models.save_models([(ModelVersion("echo", "1", False, 0, 1, [], []), True)])
    await stores.sessions.note_liveness("other")
    await database.fetch("UPDATE dispatchers SET seen_at = now() - interval '25 hours'")
    await stores.models.retire_models(1e9)
    assert [record["worker"] for record in await database.fetch("SELECT worker FROM dispatchers")] == ["w"]
