"""A wait that begins before any dispatcher knows of it."""

import asyncio
from uuid import UUID

import pytest

from common import ids
from common.job_states import Status
from common.postgres.database import Database
from services.gateway.auth.store import Key
from services.gateway.events import waiters as module
from services.gateway.events.store import EventStore
from services.gateway.events.waiter_presence import WaiterPresence
from services.gateway.events.waiters import Waiters
from tests.integration.brokers import publishing
from tests.integration.jobs import submit
from tests.integration.waiting import until
from tests.integration.world import World

LONG, SOON = 60.0, 10.0  # seconds: the poll would come after 15


async def test_a_change_without_a_message_is_found_soon_after_a_wait_begins(
    database: Database, tenant: UUID, amqp_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that ended the job does not know of the wait yet."""
    monkeypatch.setattr(module, "RECHECK_SECONDS", (0.2, 5.0))  # the last one also after a slow cancel
    world = World(database, tenant)
    job = await submit(database, tenant)
    async with publishing(amqp_url) as publisher:
        waiters = Waiters(EventStore(database), WaiterPresence(publisher), lambda: True)
        polling = asyncio.create_task(waiters.poll())
        waiting = asyncio.create_task(waiters.wait(job, Key(ids.new(), tenant), LONG))
        await until(lambda: any(each.snapshot for each in waiters._by_job.get(job, ())), "the job was read once")
        assert await world.cancel(job) is Status.CANCELED
        await asyncio.wait_for(waiting, SOON)
        polling.cancel()
        waiters.close()
