"""An event becomes deliveries once, even if its message is doubled or lost."""

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

from common.postgres.database import Database
from common.rabbitmq.messages import JobEvent
from services.dispatcher.results.store import ResultStore
from services.notifier import fanout
from services.notifier.delivery_worker import DeliveryWorker
from services.notifier.endpoint_mutex import EndpointMutex
from services.notifier.fanout import Fanout
from services.notifier.store.fanout import FanoutStore
from tests.integration.jobs import TRACEPARENT, claim, new_end, submit
from tests.integration.waiting import until, until_blocked

CALLBACK = {"callback_url": "https://a", "callback_events": ["job.succeeded"]}


@pytest.fixture
def fan(database: Database) -> Fanout:
    unused = cast("Any", None)  # without slots, nothing is claimed or sent
    worker = DeliveryWorker(
        *(unused, unused, unused, asyncio.Event(), (0.0,)), timeout=1.0, concurrency=0, endpoint_concurrency=1
    )
    return Fanout(FanoutStore(database, EndpointMutex()), worker, 0.0)


async def end_job(database: Database, tenant: UUID) -> UUID:
    """Return the event of a job's end, which has a callback."""
    end = new_end(await claim(database, await submit(database, tenant, **CALLBACK)))
    assert await ResultStore(database).end_jobs([end])
    return end.event.id


async def count_deliveries(database: Database, event: UUID) -> int:
    return len(await database.fetch("SELECT 1 FROM deliveries WHERE event_id = $1", event))


async def test_a_doubled_message_makes_no_second_delivery(database: Database, tenant: UUID, fan: Fanout) -> None:
    event = await end_job(database, tenant)
    await fan.handle(JobEvent(event), TRACEPARENT)
    await fan.handle(JobEvent(event), TRACEPARENT)
    assert await count_deliveries(database, event) == 1


async def test_an_event_whose_message_was_lost_is_found(
    database: Database, tenant: UUID, fan: Fanout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanout, "SWEEP_SECONDS", 0.01)
    missed, handled, young = [await end_job(database, tenant) for _ in range(3)]
    await fan.handle(JobEvent(handled), TRACEPARENT)
    past = "UPDATE events SET created_at = created_at - interval '61 seconds' WHERE id = ANY($1::uuid[])"
    await database.fetch(past, [missed, handled])

    async def found() -> bool:
        return await count_deliveries(database, missed) == 1

    sweeping = asyncio.create_task(fan.sweep())
    await until(found, "the missed event is fanned out")
    sweeping.cancel()
    assert await count_deliveries(database, handled) == 1
    assert await count_deliveries(database, young) == 0  # its message may still arrive
    assert await fan._store.find_missed_events(fanout.MISSED_SECONDS, 10) == {}


async def test_a_message_is_not_acked_before_its_deliveries_are_committed(
    database: Database, tenant: UUID, fan: Fanout
) -> None:
    event = await end_job(database, tenant)
    async with database.transaction() as other:
        await other.fetch("SELECT 1 FROM events WHERE id = $1 FOR UPDATE", event)
        handling = asyncio.create_task(fan.handle(JobEvent(event), TRACEPARENT))
        await until_blocked(database)
        assert not handling.done()
    await handling
    assert await count_deliveries(database, event) == 1
