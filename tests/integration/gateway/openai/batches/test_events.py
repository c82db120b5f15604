"""The end of a batch is told in OpenAI's words, by the name of the state that the batch then shows."""

from uuid import UUID

import msgspec
import pytest

from common import ids
from common.views.openai_event import OpenAIEvent
from services.gateway.batches.canceler import BatchCanceler
from services.gateway.batches.store import BatchStore
from services.gateway.openai.ids import Prefix, encode
from tests.integration.deliveries import subscribe
from tests.integration.gateway.openai.batches.gateway import Gateway, complete, end_all, line
from tests.integration.job_actions import new_canceler
from tests.integration.world import World

FOUND = """
SELECT d.event_type, r.body, r.id, e.id AS event_id
FROM delivery_requests r
JOIN live_deliveries d USING (id)
JOIN events e ON e.id = d.event_id
"""
# Words of the request that are not those of the state.
MISLEADING = {"errors": "[{", "has_expired": "true", "text": '"errors":[{"has_expired":true'}


async def end_batch(gateway: Gateway, world: World, state: str) -> UUID:
    """Return a batch that ends in this state."""
    batch = await gateway.create(b"no json\n" if state == "failed" else line(1), metadata=MISLEADING)
    batches = BatchStore(world.database)
    if state == "expired":
        await world.database.fetch("UPDATE batches SET expires_at = now()")
    await gateway.import_all()
    if state == "cancelled":
        assert await batches.cancel(batch, world.tenant)
        await BatchCanceler(batches, new_canceler(world.database, world.wake_ups, world.changes)).sweep()
    await end_all(world, batch)
    return batch


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled", "expired"])
async def test_each_end_of_a_batch_has_openais_name(gateway: Gateway, world: World, state: str) -> None:
    await subscribe(world.database, world.tenant, format="openai", events=["*"])
    batch = await end_batch(gateway, world, state)
    assert await complete(world).scan() == 1
    assert (await gateway.find(batch))[0] == state
    (sent,) = await world.database.fetch(FOUND)
    body = msgspec.json.decode(sent["body"], type=OpenAIEvent)
    assert (sent["event_type"], body.type, body.object) == (f"batch.{state}", f"batch.{state}", "event")
    assert (body.data.id, body.id) == (encode(Prefix.BATCH, batch), ids.encode(ids.Kind.EVENT, sent["event_id"]))


async def test_a_job_that_expired_makes_its_batch_expired(gateway: Gateway, world: World) -> None:
    """Its line was a job in time."""
    await subscribe(world.database, world.tenant, format="openai", events=["batch.expired"])
    batch = await gateway.create(line(1))
    await gateway.import_all()
    await world.database.fetch("UPDATE live_jobs SET expires_at = now()")
    await world.sweeper.sweep()
    assert await complete(world).scan() == 1
    assert (await gateway.find(batch))[0] == "expired"
    assert [record["event_type"] for record in await world.database.fetch(FOUND)] == ["batch.expired"]


async def test_a_batch_that_came_to_our_own_api_is_no_event_for_openai(gateway: Gateway, world: World) -> None:
    await subscribe(world.database, world.tenant, format="openai", events=["*"])
    batch = await gateway.create(line(1))
    await gateway.import_all()
    await end_all(world, batch)
    await world.database.fetch("UPDATE batches SET request = NULL")
    assert await complete(world).scan() == 1
    assert await world.database.fetch(FOUND) == []
