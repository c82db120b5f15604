"""An event becomes deliveries: one for each receiver, once, also where its message never comes."""

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

from common.database import Database
from common.messages import JobEvent
from services.dispatcher.store import Store as DispatcherStore
from services.notifier import fanout
from services.notifier.fanout import Fanout
from services.notifier.outbound import Outbound
from services.notifier.store import Store
from tests.integration.jobs import TRACEPARENT, claim, new_end, submit
from tests.integration.waiting import until, until_blocked

CALLBACK = {"callback_url": "https://a", "callback_events": ["job.succeeded"]}


@pytest.fixture
def fan(database: Database) -> Fanout:
    store, nothing = Store(database), cast("Any", None)  # there is no room to send anything
    outbound = Outbound(store, nothing, nothing, asyncio.Event(), (0.0,), timeout=1.0, concurrency=0, each=1)
    return Fanout(store, outbound, 0.0)


async def end_job(database: Database, tenant: UUID) -> UUID:
    """The event of a job's end, for its callback."""
    end = new_end(await claim(database, await submit(database, tenant, **CALLBACK)))
    assert await DispatcherStore(database).end_jobs([end])
    return end.event.id


async def count_deliveries(database: Database, event: UUID) -> int:
    return len(await database.fetch("SELECT 1 FROM deliveries WHERE event_id = $1", event))


async def test_a_doubled_message_makes_no_second_delivery(database: Database, tenant: UUID, fan: Fanout) -> None:
    event = await end_job(database, tenant)
    await fan.handle(JobEvent(event), TRACEPARENT)
    await fan.handle(JobEvent(event), TRACEPARENT)
    assert await count_deliveries(database, event) == 1


async def test_an_event_whose_message_never_came_is_found(
    database: Database, tenant: UUID, fan: Fanout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanout, "SWEEP_SECONDS", 0.01)
    lost, told, young = [await end_job(database, tenant) for _ in range(3)]
    await fan.handle(JobEvent(told), TRACEPARENT)
    past = "UPDATE events SET created_at = created_at - interval '61 seconds' WHERE id = ANY($1::uuid[])"
    await database.fetch(past, [lost, told])

    async def found() -> bool:
        return await count_deliveries(database, lost) == 1

    sweeping = asyncio.create_task(fan.sweep())
    await until(found, "the lost event is fanned out")
    sweeping.cancel()
    assert await count_deliveries(database, told) == 1
    assert await count_deliveries(database, young) == 0  # its message may still be on its way
    assert await fan.store.find_unheard(fanout.UNHEARD_SECONDS, 10) == {}


async def test_a_message_is_not_done_with_before_its_deliveries_are_committed(
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
