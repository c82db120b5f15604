"""An ordered subscription gets the events of a job one after the other."""

from typing import NamedTuple
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.jobs.end import end_jobs
from common.jobs.new_event import NewEvent
from common.postgres.database import Database
from services.dispatcher.results.store import AttemptStart, ResultStore
from services.gateway.webhooks.deliveries.store import DeliveryStore
from services.gateway.webhooks.store import WebhookStore
from services.notifier.claims import store
from tests.integration.deliveries import add_event, look_at, subscribe
from tests.integration.jobs import TRACEPARENT, claim, new_end, submit
from tests.integration.notifier.steps import FAILED, GIVEN_UP, GONE, LEASE, OK, SCHEDULE, Steps

FIND = "SELECT id FROM deliveries WHERE event_id = $1"
MAKE_DUE = "WITH due AS (UPDATE deliveries SET next_at = now() WHERE id = $1) UPDATE endpoints SET next_at = now()"

RENEW = "UPDATE deliveries SET schedule_started_at = now() WHERE event_id = $1"
OVERDUE = """
WITH aged AS (
  UPDATE deliveries SET schedule_started_at = now() - make_interval(secs => $2) WHERE event_id = $1
)
UPDATE endpoints SET failures = 30, failing_since = now() - make_interval(secs => $2), open_until = now()
"""


class Events(NamedTuple):
    """The events of one job."""

    started: UUID
    succeeded: UUID


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database)


@pytest.fixture
async def webhook(database: Database, tenant: UUID) -> UUID:
    return (await subscribe(database, tenant, ordered=True)).id


@pytest.fixture
async def job(database: Database, tenant: UUID, webhook: UUID) -> Events:
    """The events of a job that ran after the subscription was made."""
    return await run_job(database, tenant)


async def run_job(database: Database, tenant: UUID) -> Events:
    store, job = ResultStore(database), await claim(database, await submit(database, tenant))
    started, end = NewEvent(ids.new(), "job.started", 1, b"{}", TRACEPARENT), new_end(job)
    await store.record_starts([AttemptStart(job, started)])
    assert await end_jobs(database, [end])
    return Events(started.id, end.event.id)


async def claim_types(steps: Steps) -> list[str]:
    """Claim what is due. Return the types of the events."""
    return [each.event_type for each in await steps.claim()]


async def find(database: Database, event: UUID) -> UUID:
    (delivery,) = await database.fetch(FIND, event)
    found: UUID = delivery["id"]
    return found


@pytest.mark.usefixtures("webhook")
async def test_a_later_event_waits_for_the_earlier_one_of_its_job_only(
    database: Database, tenant: UUID, steps: Steps
) -> None:
    jobs = [await run_job(database, tenant) for _ in range(2)]
    assert await steps.take(*(event for job in jobs for event in job)) == []  # the loop claims them
    first = await steps.claim()
    assert {each.id for each in first} == {await find(database, job.started) for job in jobs}
    assert await steps.claim() == []
    await steps.record(first[:1], OK)
    (second,) = await steps.claim()
    assert (second.job_id, second.event_type) == (first[0].job_id, "job.succeeded")
    await steps.record(first[1:], OK)
    await steps.record([second], OK)
    (last,) = await steps.claim()
    assert (last.job_id, last.event_type) == (first[1].job_id, "job.succeeded")


async def test_a_later_event_waits_until_the_earlier_one_is_exhausted(
    database: Database, job: Events, steps: Steps
) -> None:
    later = await find(database, job.succeeded)
    await steps.take(*job)
    sent = await steps.attempt(FAILED)
    assert [each.event_type for each in sent] == ["job.started"]
    await database.fetch(MAKE_DUE, later)
    assert await steps.claim() == []
    assert 60 < ((await look_at(database, later)).waits or 0) <= 60 + LEASE  # with the next attempt of the other
    await database.fetch(MAKE_DUE, sent[0].id)
    assert [each.id for each in await steps.attempt(GIVEN_UP)] == [sent[0].id]
    assert [each.id for each in await steps.claim()] == [later]


async def test_a_later_event_waits_for_one_that_nobody_has_taken(database: Database, job: Events, steps: Steps) -> None:
    await steps.take(job.succeeded)
    assert await steps.claim() == []
    await steps.take(job.started)
    assert [each.id for each in await steps.claim()] == [await find(database, job.started)]


async def test_a_later_event_is_not_forgotten_if_the_earlier_one_is_canceled(
    database: Database, job: Events, steps: Steps
) -> None:
    await steps.take(*job)
    assert len(await steps.claim()) == 1
    await database.fetch(
        "UPDATE deliveries SET status = 'canceled', next_at = NULL, lease_until = NULL, generation = 1, "
        "finished_at = now() "
        "WHERE event_id = $1",
        job.started,
    )
    assert 0 < ((await look_at(database, await find(database, job.succeeded))).waits or 0) <= 2 * LEASE
    await database.fetch(MAKE_DUE, await find(database, job.succeeded))
    assert await claim_types(steps) == ["job.succeeded"]


async def test_a_later_event_that_is_sent_again_follows_the_earlier_one_at_once(
    database: Database, tenant: UUID, job: Events, steps: Steps
) -> None:
    await steps.take(*job)
    await steps.attempt(GIVEN_UP)
    await steps.attempt(GIVEN_UP)
    for event in (job.started, job.succeeded):
        await redeliver(database, tenant, event)
    (earlier,) = await steps.claim()
    assert await steps.claim() == []
    await steps.record([earlier], OK)
    assert await claim_types(steps) == ["job.succeeded"]


async def test_the_end_of_an_earlier_event_leaves_an_attempt_under_way_alone(
    database: Database, tenant: UUID, job: Events, steps: Steps
) -> None:
    await steps.take(*job)
    await steps.attempt(GIVEN_UP)
    (later,) = await steps.claim()
    await redeliver(database, tenant, job.started)
    await steps.attempt(OK)
    assert (await look_at(database, later.id)).leased
    assert await steps.claim() == []


async def test_a_canceled_event_holds_up_no_later_one(
    database: Database, tenant: UUID, webhook: UUID, job: Events, steps: Steps
) -> None:
    """It is not canceled yet: its subscription has a backlog."""
    await steps.take(job.started)
    await steps.attempt(FAILED)  # the next attempt is in a minute
    await disable_and_enable(database, tenant, webhook, steps)
    await database.fetch(RENEW, job.succeeded)
    assert await steps.take(job.succeeded) == []
    assert await steps.claim() == []
    assert await steps.ended_subscriptions.advance() == 1
    assert await claim_types(steps) == ["job.succeeded"]


async def test_a_later_event_follows_one_that_waited_for_its_whole_schedule(
    database: Database, job: Events, steps: Steps
) -> None:
    await steps.take(*job)
    await steps.attempt(FAILED)
    await database.fetch(OVERDUE, job.started, 2 * sum(SCHEDULE))
    await steps.overdue.exhaust()
    assert (await look_at(database, await find(database, job.started))).status == "exhausted"
    assert await claim_types(steps) == ["job.succeeded"]


async def test_what_waits_is_due_when_the_subscription_is_no_longer_ordered(
    database: Database, tenant: UUID, webhook: UUID, steps: Steps
) -> None:
    """The earlier event waits for its next attempt, and so does a failed one that waits for no other."""
    jobs = [await run_job(database, tenant) for _ in range(2)]
    await steps.take(*(event for job in jobs for event in job))
    earlier = await steps.attempt(FAILED)
    assert await steps.claim() == []
    for delivery in [await find(database, job.succeeded) for job in jobs]:
        await database.fetch(MAKE_DUE, delivery)  # so that the next claim postpones it
    assert await steps.claim() == []
    await change(database, tenant, webhook, description="still ordered")
    assert await steps.claim() == []
    await database.fetch("UPDATE endpoints SET failures = 0, failing_since = NULL")
    await change(database, tenant, webhook, ordered=False)
    assert await claim_types(steps) == ["job.succeeded"] * 2
    assert {(await look_at(database, each.id)).status for each in earlier} == {"pending"}


@pytest.mark.usefixtures("webhook")
async def test_a_claim_looks_at_few_of_those_that_wait(
    database: Database, tenant: UUID, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a long backlog would hold up the claims of others: a look takes 17 µs."""
    jobs = [await run_job(database, tenant) for _ in range(7)]
    await steps.take(*(job.started for job in jobs))
    await steps.attempt(FAILED)
    await steps.schedule(*(job.succeeded for job in jobs))
    await steps.schedule(await add_event(database, tenant))
    monkeypatch.setattr(store, "MAX_LOOKED_AT", 2)
    assert [len(await steps.claim()) for _ in range(5)] == [0, 0, 0, 1, 0]


async def redeliver(database: Database, tenant: UUID, event: UUID) -> None:
    store, delivery = DeliveryStore(database), await find(database, event)
    async with database.transaction() as connection:
        assert await store.lock(connection, delivery, tenant)
        await store.redeliver(connection, delivery)


async def change(database: Database, tenant: UUID, webhook: UUID, **fields: object) -> None:
    """Change the subscription as a PATCH does."""
    store = WebhookStore(database)
    async with database.transaction() as connection:
        row = await store.lock(connection, webhook, tenant)
        assert row is not None
        await store.update(connection, row, msgspec.structs.replace(row, **fields))


async def disable_and_enable(database: Database, tenant: UUID, webhook: UUID, steps: Steps) -> None:
    """Disable the subscription with a 410 for another job, and enable it."""
    other = await run_job(database, tenant)
    await steps.take(other.started)
    await steps.attempt(GONE)
    async with database.transaction() as connection:
        assert await WebhookStore(database).lock(connection, webhook, tenant)
        await WebhookStore(database).enable(connection, webhook)


async def test_without_the_option_all_events_are_sent_at_once(database: Database, tenant: UUID, steps: Steps) -> None:
    webhook = (await subscribe(database, tenant)).id
    job = await run_job(database, tenant)
    assert {each.endpoint_id for each in await steps.take(*job)} == {webhook}
    assert await steps.claim() == []
    assert {each["attempt"] for each in await database.fetch("SELECT attempt FROM deliveries")} == {1}


async def test_many_that_wait_hold_up_no_other_job(database: Database, tenant: UUID, webhook: UUID) -> None:
    steps = Steps(database, endpoint_concurrency=3)
    jobs = [await run_job(database, tenant) for _ in range(5)]
    await steps.schedule(*(job.succeeded for job in jobs))
    await database.fetch("UPDATE deliveries SET next_at = now() - interval '1 minute' WHERE next_at IS NOT NULL")
    await steps.schedule(*(job.started for job in jobs))
    assert await claim_types(steps) == ["job.started"] * 3
    assert {each["endpoint_id"] for each in await database.fetch("SELECT endpoint_id FROM deliveries")} == {webhook}
