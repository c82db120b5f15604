"""A deep queue is quiet: nobody writes to jobs that wait, and their wake-ups are not sent again and again."""

import hashlib
from uuid import UUID

import pytest

from common.jobs import Priority
from common.postgres.database import Database
from common.rabbitmq import topology
from common.rabbitmq.wake_ups import WakeUpPublisher
from services.dispatcher.maintenance.reconciler import AGE_SECONDS, MAX_WAKE_UPS, Reconciler
from services.dispatcher.triton.client import ModelVersion
from services.gateway.jobs.store import JobStore
from tests.integration.brokers import connected, publishing
from tests.integration.jobs import new_job
from tests.integration.world import World

JOBS = 5000
ROUNDS = 20
WAITED_LONG = "UPDATE jobs SET run_at = run_at - interval '1 hour', created_at = created_at - interval '1 hour'"
VERSIONS = "SELECT string_agg(ctid::text || xmin::text, ' ' ORDER BY id) AS rows FROM jobs"


async def read_versions(database: Database) -> bytes:
    """Return a hash of the place and the last writer of each job's row."""
    record = await database.fetch_one(VERSIONS)
    assert record is not None
    return hashlib.sha256(record["rows"].encode()).digest()


@pytest.mark.parametrize("messages", [JOBS, 0], ids=["all wake-ups wait", "all wake-ups are lost"])
async def test_jobs_that_wait_for_long_cost_neither_writes_nor_messages(
    database: Database, tenant: UUID, amqp_url: str, model: str, messages: int
) -> None:
    world = World(database, tenant)
    jobs = [new_job(tenant, model=model) for _ in range(JOBS)]
    for start in range(0, JOBS, 1000):
        await JobStore(database).submit_jobs(jobs[start : start + 1000])
    await world.stores.models.save_models([(ModelVersion(model, "1", False, 0, 1, [], []), True)])
    await database.fetch(WAITED_LONG)
    before = await read_versions(database)
    async with connected(amqp_url) as channel, publishing(amqp_url) as publisher:
        await topology.declare_exchanges(channel)
        await topology.declare_model_queues(channel, model)
        wake_ups = WakeUpPublisher(publisher)
        await wake_ups.announce_many([job.wake_up for job in jobs[:messages]])
        reconciler = Reconciler(world.stores.reconciler, world.recorder, publisher, wake_ups)
        for _ in range(ROUNDS):
            await world.sweep()
            await reconciler.reconcile(AGE_SECONDS)
        await wake_ups.drain(10)
        queue = topology.job_queue(model, Priority.NORMAL)
        assert await publisher.count_ready([queue]) == {queue: messages or MAX_WAKE_UPS}
    assert await read_versions(database) == before
