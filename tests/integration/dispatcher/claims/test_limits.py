"""Operators limit and pause models and tenants. The claims of all dispatchers keep to that."""

import asyncio
from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from common.job_states import Priority
from common.jobs.end import end_jobs
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUp
from services.dispatcher.claims.claims import Claims
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.claims.store import LimitStore
from services.dispatcher.maintenance.reconciler.store import find_waiting_queues
from services.dispatcher.models.served_model import ServedModel
from tests.integration.jobs import LEASE, add_tenant, new_end, submit, take
from tests.integration.stores import Stores
from tests.integration.waiting import until

MANY = 12  # jobs
SET_LIMIT = """
INSERT INTO model_limits (model, max_running, max_running_per_tenant, paused_at)
VALUES ('echo', $1, $2, CASE WHEN $3 THEN now() END)
"""


@pytest.fixture
def stores(database: Database) -> Stores:
    return Stores(database)


async def limit(
    database: Database, running: int | None = None, per_tenant: int | None = None, *, paused: bool = False
) -> None:
    await database.fetch(SET_LIMIT, running, per_tenant, paused)


async def pause_tenant(database: Database, tenant: UUID) -> None:
    await database.fetch("UPDATE tenants SET paused_at = now() WHERE id = $1", tenant)


class Dispatcher:
    """The claims of one dispatcher. It has no broker: wake-ups are recorded."""

    def __init__(self, database: Database) -> None:
        self.wake_ups: list[WakeUp] = []
        self.limits = RunLimits(LimitStore(database), self.wake_ups.extend)
        self.claims = Claims(database, self.limits, worker="w", lease=LEASE)
        self.model = ServedModel("echo", asyncio.Event())

    async def claim(self, count: int, priority: Priority = Priority.NORMAL) -> list[Any]:
        """Return the jobs that this many wake-ups claim."""
        found = await asyncio.gather(*(self.claims.claim(self.model, priority) for _ in range(count)))
        return [job for job in found if job is not None]


async def test_a_model_runs_at_most_as_many_jobs_as_allowed_over_all_dispatchers(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    for priority in (Priority.HIGH, Priority.LOW):
        for _ in range(MANY):
            await submit(database, tenant, priority=priority)
    await limit(database, running=3)
    dispatchers = [Dispatcher(database) for _ in range(4)]
    claims = [each.claim(2, priority) for each in dispatchers for priority in (Priority.HIGH, Priority.LOW)]
    claimed = [job for jobs in await asyncio.gather(*claims) for job in jobs]
    assert len(claimed) == 3
    await end_jobs(database, [new_end(claimed[0])])
    assert len(await dispatchers[0].claim(5, Priority.LOW)) == 1


async def test_a_tenant_runs_at_most_as_many_jobs_of_a_model_as_allowed(database: Database, stores: Stores) -> None:
    tenants = [await add_tenant(database, f"tenant {number}") for number in range(3)]
    for tenant in tenants:
        for _ in range(MANY):
            await submit(database, tenant)
    await limit(database, per_tenant=2)
    dispatchers = [Dispatcher(database) for _ in range(3)]
    claimed = [job for jobs in await asyncio.gather(*(each.claim(MANY) for each in dispatchers)) for job in jobs]
    assert Counter(job.tenant_id for job in claimed) == dict.fromkeys(tenants, 2)


async def test_a_tenant_at_its_limit_does_not_hold_back_others(database: Database, stores: Stores) -> None:
    full = [await add_tenant(database, f"tenant {number}") for number in range(15)]  # more than one claim visits
    for tenant in full:
        await submit(database, tenant)
        await submit(database, tenant)
    await limit(database, per_tenant=1)
    dispatcher = Dispatcher(database)
    assert len(await dispatcher.claim(len(full))) == len(full)
    late = await submit(database, await add_tenant(database, "late"))
    assert [job.id for job in await dispatcher.claim(1)] == [late]


async def test_no_job_of_a_paused_model_starts(database: Database, stores: Stores, tenant: UUID) -> None:
    await submit(database, tenant)
    other = await submit(database, tenant, model="other")
    await limit(database, paused=True)
    assert await Dispatcher(database).claim(2) == []
    assert [job.id for job in await take(database, model="other")] == [other]
    await database.fetch("DELETE FROM model_limits")
    assert len(await Dispatcher(database).claim(2)) == 1


@pytest.mark.parametrize("limited", [False, True])
async def test_no_job_of_a_paused_tenant_starts(
    database: Database, stores: Stores, tenant: UUID, limited: bool
) -> None:
    if limited:
        await limit(database, running=MANY)
    paused = await add_tenant(database, "paused")
    await pause_tenant(database, paused)
    for _ in range(MANY):
        await submit(database, paused)
    own = await submit(database, tenant)
    assert [job.id for job in await Dispatcher(database).claim(3)] == [own]
    await database.fetch("UPDATE tenants SET paused_at = NULL")
    assert len(await Dispatcher(database).claim(3)) == 3


async def test_a_change_reaches_a_dispatcher_that_runs(database: Database, stores: Stores, tenant: UUID) -> None:
    for _ in range(MANY):
        await submit(database, tenant)
    dispatcher = Dispatcher(database)
    reading = asyncio.create_task(dispatcher.limits.run())
    assert len(await dispatcher.claim(1)) == 1
    await limit(database, running=2)

    async def knows() -> bool:
        return "echo" in (await dispatcher.limits.get()).models

    try:
        await until(knows, "the dispatcher knows the limit")
    finally:
        reading.cancel()
    assert len(await dispatcher.claim(5)) == 1


async def test_an_end_wakes_the_next_job_of_each_priority(database: Database, stores: Stores, tenant: UUID) -> None:
    for priority in (Priority.HIGH, Priority.HIGH, Priority.LOW):
        await submit(database, tenant, priority=priority)
    await limit(database, running=1)
    dispatcher = Dispatcher(database)
    (job,) = await dispatcher.claim(2, Priority.HIGH)  # the second wake-up is used up
    await end_jobs(database, [new_end(job)])
    dispatcher.claims.note_end(dispatcher.model, job)
    await until(lambda: bool(dispatcher.wake_ups), "the next jobs are announced")
    assert [each.routing_key for each in dispatcher.wake_ups] == ["job.high.echo", "job.low.echo"]


async def test_the_reconciler_wakes_only_what_may_start(database: Database, stores: Stores, tenant: UUID) -> None:
    paused = await add_tenant(database, "paused")
    for _ in range(MANY):
        await submit(database, tenant)
        await submit(database, paused)

    async def count_waiting() -> int:
        return sum(len(queue.jobs) for queue in await find_waiting_queues(database, 0.0, 100))

    assert await count_waiting() == 2 * MANY
    await pause_tenant(database, paused)
    assert await count_waiting() == MANY
    await limit(database, running=5)
    assert await count_waiting() == 5
    await Dispatcher(database).claim(3)
    assert await count_waiting() == 2
    await database.fetch("UPDATE model_limits SET max_running_per_tenant = 3")
    assert await count_waiting() == 0
    await database.fetch("UPDATE model_limits SET max_running_per_tenant = NULL, paused_at = now()")
    assert await count_waiting() == 0
