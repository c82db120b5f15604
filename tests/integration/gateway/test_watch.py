"""A wait that begins while no dispatcher knows that somebody waits."""

import asyncio
from uuid import UUID

from common import ids
from common.database import Database
from common.jobs import Status
from services.gateway.attention import Attention
from services.gateway.store import Key
from services.gateway.watch import Watch
from services.gateway.watch_store import WatchStore
from tests.integration.brokers import publishing
from tests.integration.jobs import submit
from tests.integration.waiting import until
from tests.integration.world import World

LONG, SOON = 60.0, 10.0  # seconds: the slow look would come after 15


async def test_what_nobody_rings_for_is_found_soon_where_a_wait_begins(
    database: Database, tenant: UUID, amqp_url: str
) -> None:
    """Whoever ended the job has not heard of the wait yet."""
    world = World(database, tenant)
    job = await submit(database, tenant)
    async with publishing(amqp_url) as publisher:
        watch = Watch(WatchStore(database), Attention(publisher), lambda: True)
        polling = asyncio.create_task(watch.poll())
        waiting = asyncio.create_task(watch.wait(job, Key(ids.new(), tenant), LONG))
        await until(lambda: any(each.stamp for each in watch.watched.get(job, ())), "the first look was taken")
        assert await world.cancel(job) is Status.CANCELED
        await asyncio.wait_for(waiting, SOON)
        polling.cancel()
        watch.close()
