"""A deep queue is quiet: nobody writes to jobs that wait, and their wake-ups are not sent again and again."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple
from uuid import UUID

import aio_pika
import pytest

from common.job_states import Priority
from common.jobs.submit import submit_jobs
from common.postgres.database import Database
from common.rabbitmq import topology
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.wake_ups import WakeUpPublisher
from services.dispatcher.maintenance.reconciler.announcements import USED_PART
from services.dispatcher.maintenance.reconciler.reconciler import AGE_SECONDS, MAX_WAKE_UPS, REPEAT_SECONDS, Reconciler
from services.dispatcher.maintenance.reconciler.store import Queue, find_waiting_queues
from services.dispatcher.triton.model_version import ModelVersion
from tests.integration.brokers import connected, publishing
from tests.integration.handlers import declare_model_queues
from tests.integration.jobs import add_tenant, new_job, take
from tests.integration.world import World

JOBS = 10 * MAX_WAKE_UPS
ROUNDS = 20
WAITED_LONG = "UPDATE jobs SET run_at = run_at - interval '1 hour', created_at = created_at - interval '1 hour'"
START = """
UPDATE jobs SET scheduled_at = now()
WHERE id IN (SELECT id FROM jobs WHERE scheduled_at IS NULL ORDER BY tenant_id, id LIMIT $1)
"""
VERSIONS = "SELECT string_agg(ctid::text || xmin::text, ' ' ORDER BY id) AS rows FROM jobs"


class Broker(NamedTuple):
    publisher: Publisher
    wake_ups: WakeUpPublisher
    reconciler: Reconciler
    queue: str
    channel_queue: aio_pika.abc.AbstractQueue
    clock: list[float]  # the time


@asynccontextmanager
async def reconciling(world: World, amqp_url: str, model: str) -> AsyncIterator[Broker]:
    """Yield a broker with the queues of a model, and a reconciler."""
    async with connected(amqp_url) as channel, publishing(amqp_url) as publisher:
        await topology.declare_exchanges(channel)
        await declare_model_queues(channel, model)
        wake_ups, clock = WakeUpPublisher(publisher), [0.0]
        reconciler = Reconciler(world.database, world.recorder, publisher, wake_ups, lambda: clock[0])
        queue = topology.job_queue(model, Priority.NORMAL)
        yield Broker(publisher, wake_ups, reconciler, queue, await channel.get_queue(queue), clock)


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
    await submit_jobs(database, jobs)
    await world.stores.models.save_models([(ModelVersion(model, "1", False, 0, 1, [], []), True)])
    await database.fetch(WAITED_LONG)
    before = await read_versions(database)
    async with reconciling(world, amqp_url, model) as broker:
        await broker.wake_ups.announce_many([job.wake_up for job in jobs[:messages]])
        for _ in range(ROUNDS):
            await world.sweep()
            await broker.reconciler.reconcile(AGE_SECONDS)
        await broker.wake_ups.drain(10)
        assert await broker.publisher.count_ready([broker.queue]) == {broker.queue: messages or MAX_WAKE_UPS}
    assert await read_versions(database) == before


async def test_jobs_that_dispatchers_leave_queued_are_not_announced_at_once(
    database: Database, tenant: UUID, amqp_url: str, model: str
) -> None:
    world = World(database, tenant)
    await submit_jobs(database, [new_job(tenant, model=model) for _ in range(2 * MAX_WAKE_UPS)])
    await world.stores.models.save_models([(ModelVersion(model, "1", False, 0, 1, [], []), True)])
    await database.fetch(WAITED_LONG)
    async with reconciling(world, amqp_url, model) as broker:

        async def reconcile(age: float = AGE_SECONDS) -> int:
            """Reconcile. The wake-ups are used up at once."""
            sent = await broker.reconciler.reconcile(age)
            await broker.wake_ups.drain(10)
            await broker.channel_queue.purge()
            return sent

        assert [await reconcile() for _ in range(ROUNDS)] == [MAX_WAKE_UPS, *[0] * (ROUNDS - 1)]
        broker.clock[0] += REPEAT_SECONDS
        assert [await reconcile() for _ in range(3)] == [MAX_WAKE_UPS, 0, 0]
        await database.fetch(START, 1)
        assert await reconcile() == 0
        await database.fetch(START, MAX_WAKE_UPS // USED_PART)  # many of them start, so the others may too
        assert [await reconcile() for _ in range(3)] == [MAX_WAKE_UPS, 0, 0]
        assert await reconcile(0.0) == MAX_WAKE_UPS  # the broker was away


async def test_a_backlog_of_many_tenants_without_messages_is_started_without_a_pause(
    database: Database, tenant: UUID, amqp_url: str, model: str
) -> None:
    """Claims take turns, so wake-ups do too. Otherwise few announced jobs start, and the next ones wait for long."""
    world = World(database, tenant)
    tenants = [tenant, *[await add_tenant(database, f"tenant {number}") for number in range(19)]]
    await submit_jobs(database, [new_job(each, model=model) for each in tenants for _ in range(MAX_WAKE_UPS)])
    await world.stores.models.save_models([(ModelVersion(model, "1", False, 0, 1, [], []), True)])
    await database.fetch(WAITED_LONG)
    async with reconciling(world, amqp_url, model) as broker:
        for _ in range(3):
            assert await broker.reconciler.reconcile(AGE_SECONDS) == MAX_WAKE_UPS
            await broker.wake_ups.drain(10)
            await broker.channel_queue.purge()
            assert len(await take(database, MAX_WAKE_UPS, model=model)) == MAX_WAKE_UPS


async def test_each_of_very_many_tenants_is_announced_in_turn(database: Database) -> None:
    tenants = sorted([await add_tenant(database, f"tenant {number}") for number in range(7)])
    await submit_jobs(database, [new_job(each) for each in tenants])
    announced, last = list[UUID](), dict[Queue, UUID]()
    for _ in range(3):
        (queue,) = await find_waiting_queues(database, 0.0, 3, last)
        announced += [job.tenant_id for job in queue.jobs]
        last = {queue.key: queue.last_tenant}
    assert announced == [*tenants, *tenants[:2]]
