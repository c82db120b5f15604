"""A new delivery is taken once, even if the message of its event is doubled or lost."""

import asyncio
from uuid import UUID

import pytest

from common.jobs.end import end_jobs
from common.postgres.database import Database
from common.rabbitmq.messages import EventsRecorded, RecordedEvent
from services.notifier.claims.store import ClaimStore
from services.notifier.deliveries.worker import DeliveryWorker
from services.notifier.endpoints.due_endpoints import DueEndpoints
from services.notifier.new_deliveries import taker as module
from services.notifier.new_deliveries.store import RECEIVERS, NewDeliveryStore
from services.notifier.new_deliveries.taker import NewDeliveries
from tests.integration.deliveries import add_event, subscribe
from tests.integration.jobs import TRACEPARENT, add_tenant, claim, new_end, submit
from tests.integration.notifier.steps import Steps
from tests.integration.waiting import until
from tests.unit.notifier.samples import RecorderStub, SenderStub

OLDER = "UPDATE deliveries SET created_at = created_at - make_interval(secs => $2) WHERE event_id = ANY($1::uuid[])"
CALLBACK = {"callback_url": "https://a", "callback_events": ["job.succeeded"]}
TAKEN = "SELECT 1 FROM deliveries WHERE event_id = $1 AND next_at IS NOT NULL"


@pytest.fixture
def taker(database: Database) -> NewDeliveries:
    worker = DeliveryWorker(
        ClaimStore(database),
        SenderStub(),
        RecorderStub(),
        DueEndpoints(),
        (0.0,),
        timeout=1.0,
        concurrency=0,  # so nothing is claimed or sent
        endpoint_concurrency=1,
    )
    return NewDeliveries(NewDeliveryStore(database), worker, 0.0)


async def end_job(database: Database, tenant: UUID) -> UUID:
    """Return the event of a job's end, which has a callback."""
    end = new_end(await claim(database, await submit(database, tenant, **CALLBACK)))
    assert await end_jobs(database, [end])
    return end.event.id


async def is_taken(database: Database, event: UUID) -> bool:
    return len(await database.fetch(TAKEN, event)) == 1


async def test_a_message_is_not_acked_before_its_deliveries_are_taken(
    database: Database, tenant: UUID, taker: NewDeliveries
) -> None:
    event = await end_job(database, tenant)
    assert not await is_taken(database, event)
    for _ in range(2):  # a doubled message changes nothing
        await taker.handle(EventsRecorded([RecordedEvent(event, TRACEPARENT)]), TRACEPARENT)
        assert await is_taken(database, event)


async def test_what_a_full_notifier_takes_is_soon_due_for_others(
    database: Database, tenant: UUID, taker: NewDeliveries
) -> None:
    """Its attempts may hang until their deadline, much later."""
    webhook = (await subscribe(database, tenant)).id
    await taker.handle(EventsRecorded([RecordedEvent(await add_event(database, tenant), TRACEPARENT)]), TRACEPARENT)
    other = Steps(database)
    assert await other.claim() == []  # the one that took it comes first
    await database.fetch("UPDATE endpoints SET next_at = next_at - interval '1 second'")
    assert [claim.webhook_id for claim in await other.claim()] == [webhook]


async def test_deliveries_whose_message_was_lost_are_found(
    database: Database, tenant: UUID, taker: NewDeliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SWEEP_SECONDS", 0.01)
    monkeypatch.setattr(module, "MISSED_SECONDS", 60.0)
    missed, handled, young = [await end_job(database, tenant) for _ in range(3)]
    await taker.handle(EventsRecorded([RecordedEvent(handled, "")]), TRACEPARENT)
    await database.fetch(OLDER, [missed, handled], module.MISSED_SECONDS)
    await database.fetch(OLDER, [young], -1.0)  # the clock of the database may be set back a little

    sweeping = asyncio.create_task(taker.sweep())
    await until(lambda: is_taken(database, missed), "the missed delivery is taken")
    sweeping.cancel()
    assert not await is_taken(database, young)  # its message may still arrive
    assert await taker._store.find(module.MISSED_SECONDS, 10) == []


async def test_a_lost_message_waits_for_no_other_tenant(
    database: Database, tenant: UUID, taker: NewDeliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other tenant's oldest deliveries fill the search, and wait for their turn."""
    monkeypatch.setattr(module, "MISSED_LIMIT", 2)
    many = await add_tenant(database, "many")
    for _ in range(RECEIVERS + 2):
        await subscribe(database, many)
    wide = await add_event(database, many)
    await taker.handle(EventsRecorded([RecordedEvent(wide, "")]), None)
    lost = await end_job(database, tenant)
    await database.fetch(OLDER, [wide], 60.0)
    await database.fetch(OLDER, [lost], module.MISSED_SECONDS)
    assert len(await taker._store.find(module.MISSED_SECONDS, 2)) == 2
    await taker._take_missed()
    assert await is_taken(database, lost)
