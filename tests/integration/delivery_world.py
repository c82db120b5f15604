"""Events, notifiers, clients and time, which act on deliveries in a real database with the code of the services."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from common import ids
from common.postgres.database import Database
from services.gateway.http.problems import Problem
from services.gateway.jobs.actions.erasure import Eraser
from services.gateway.webhooks.deliveries.store import DeliveryStore
from services.gateway.webhooks.store import WebhookStore
from services.notifier.claims.store import ClaimedDelivery
from services.notifier.new_deliveries.store import NewDeliveryStore
from tests.integration.deliveries import CALLBACK, subscribe
from tests.integration.jobs import submit
from tests.integration.notifier.steps import LEASE, OK, Result, Steps

CONCURRENCY = 2
EVENT = """
INSERT INTO events (id, tenant_id, job_id, model, sequence, type, body, traceparent, callback_url)
SELECT $1, tenant_id, id, model, $3, 'job.succeeded', '{}', '',
       CASE WHEN callback_events && event_patterns('job.succeeded') THEN callback_url END
FROM jobs
WHERE id = $2 AND erased_at IS NULL
FOR KEY SHARE
RETURNING id
"""
# Of these deliveries ($1): those of ended subscriptions, and those that an earlier event of their job holds up.
WRONG = """
SELECT d.id
FROM deliveries d
JOIN endpoints receiver ON receiver.id = d.endpoint_id
LEFT JOIN webhooks w ON w.id = d.webhook_id
WHERE d.id = ANY($1::uuid[]) AND (
  w.disabled_at IS NOT NULL
  OR (d.webhook_id IS NOT NULL AND w.id IS NULL)
  OR (receiver.ordered AND EXISTS (
    SELECT
    FROM events e
    JOIN events earlier ON earlier.job_id = e.job_id AND earlier.sequence < e.sequence
    JOIN visible_deliveries held ON held.event_id = earlier.id AND held.endpoint_id = d.endpoint_id
    WHERE e.id = d.event_id AND held.finished_at IS NULL
  ))
)
"""
PASS_TIME = """
WITH locked AS MATERIALIZED ( -- endpoints before deliveries, as a notifier does
  SELECT id FROM endpoints ORDER BY id FOR NO KEY UPDATE
), waiting AS MATERIALIZED (
  SELECT id FROM deliveries WHERE (SELECT count(*) FROM locked) >= 0 ORDER BY id FOR NO KEY UPDATE
), moved AS (
  UPDATE deliveries d
  SET next_at = next_at - $1::interval, lease_until = lease_until - $1::interval,
      created_at = created_at - $1::interval, schedule_started_at = schedule_started_at - $1::interval
  FROM waiting
  WHERE d.id = waiting.id
)
UPDATE endpoints e
SET next_at = next_at - $1::interval, open_until = open_until - $1::interval,
    rate_limited_until = rate_limited_until - $1::interval, failing_since = failing_since - $1::interval,
    cancel_before = cancel_before - $1::interval
FROM (SELECT id FROM locked WHERE (SELECT count(*) FROM waiting) >= 0) first
WHERE e.id = first.id
"""


class DeliveryWorld:
    def __init__(self, database: Database, tenant: UUID) -> None:
        self.database, self.tenant = database, tenant
        self.notifiers = [Steps(database, endpoint_concurrency=CONCURRENCY) for _ in range(2)]
        self.begin()

    def begin(self) -> None:
        self.messages: list[UUID] = []
        self.jobs: list[UUID] = []
        self.events = 0  # that were added
        self.webhooks: list[UUID] = []
        self.claims: list[tuple[Steps, ClaimedDelivery]] = []  # also lost and recorded ones
        self.sent: defaultdict[tuple[UUID, UUID], set[UUID]] = defaultdict(set)  # ids by event and endpoint

    async def reset(self) -> None:
        self.begin()
        for table in ("events", "jobs", "webhooks", "endpoints"):
            await self.database.fetch(f"DELETE FROM {table}")  # noqa: S608 -- constants
        changes: list[dict[str, Any]] = [{}, {"rate_limit": 2}, {"ordered": True}]
        for limits in changes:
            self.webhooks.append((await subscribe(self.database, self.tenant, events=["*"], **limits)).id)

    async def add_event(self, number: int, *, lose_message: bool) -> None:
        """Add the first event of a new job, or another one of a known job."""
        if number >= len(self.jobs):
            self.jobs.append(await submit(self.database, self.tenant, **CALLBACK))
        self.events += 1
        added = await self.database.fetch(EVENT, ids.new(), self.jobs[-1 - number % len(self.jobs)], self.events)
        if not lose_message:
            self.messages += [record["id"] for record in added]

    async def take(self, notifier: Steps) -> list[UUID]:
        """Take what the messages name, and leave the messages: they may come again. Return what was claimed."""
        return await self.send(notifier, await notifier.take(*self.messages, limit=3))

    async def take_and_lose(self) -> None:
        """Claim and send new deliveries, and lose the commit."""
        async with self.database.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            store = NewDeliveryStore(connection)
            found = await store.claim(dict.fromkeys(self.messages, ""), 3, LEASE, CONCURRENCY)
            await transaction.rollback()
        await self.send(self.notifiers[0], found.claims)

    async def sweep(self, notifier: Steps) -> list[UUID]:
        """Do what a notifier does from time to time. Return what was claimed."""
        missed = await notifier.new.find(0.0, 100)
        claimed = await self.send(notifier, await notifier.take(*{event for event, _ in missed}))
        await notifier.new.check_missed_endpoints(LEASE)
        await notifier.overdue.exhaust()
        await notifier.ended_subscriptions.advance()
        await notifier.recovery.advance()
        return claimed

    async def claim(self, notifier: Steps) -> list[UUID]:
        return await self.send(notifier, await notifier.claim(3))

    async def find_wrong(self, claimed: list[UUID]) -> list[UUID]:
        """Return those of these deliveries that no notifier should have claimed."""
        return [record["id"] for record in await self.database.fetch(WRONG, claimed)]

    async def send(self, notifier: Steps, claims: list[ClaimedDelivery]) -> list[UUID]:
        for claim in claims:
            found = await self.database.fetch("SELECT event_id FROM deliveries WHERE id = $1", claim.id)
            for record in found:  # none, if it was deleted meanwhile
                self.sent[record["event_id"], claim.endpoint_id].add(claim.id)
            self.claims.append((notifier, claim))
        return [claim.id for claim in claims]

    async def record(self, number: int, result: Result) -> None:
        """Record a result under one of the last claims. It may be lost, or recorded already."""
        if self.claims:
            notifier, claim = self.claims[-1 - number % len(self.claims)]
            await notifier.record([claim], result)

    async def settle(self, notifier: Steps) -> None:
        """Deliver everything that is due. Then nothing waits, unless it is lost."""
        await self.claim(notifier)
        for number in range(len(self.claims)):
            await self.record(number, OK)
        await self.pass_time(LEASE + 1)
        await self.claim(notifier)

    def crash(self, notifier: Steps) -> None:
        """Forget what the notifier had in memory."""
        notifier.due.take()
        self.claims = [each for each in self.claims if each[0] is not notifier]

    async def redeliver(self, number: int) -> None:
        found = await self.database.fetch("SELECT id FROM deliveries ORDER BY id")
        if found:
            store, delivery = DeliveryStore(self.database), found[number % len(found)]["id"]
            async with self.database.transaction() as connection:
                locked = await store.lock(connection, delivery, self.tenant)
                if locked and not locked.disabled:
                    await store.redeliver(connection, delivery)

    async def enable(self, number: int) -> None:
        store, webhook = WebhookStore(self.database), self.webhooks[number % len(self.webhooks)]
        async with self.database.transaction() as connection:
            if await store.lock(connection, webhook, self.tenant):
                await store.enable(connection, webhook)

    async def delete(self, number: int) -> None:
        store, webhook = WebhookStore(self.database), self.webhooks[number % len(self.webhooks)]
        async with self.database.transaction() as connection:
            if await store.lock(connection, webhook, self.tenant):
                await store.delete(connection, webhook)

    async def change_order(self, number: int) -> None:
        """Let events of a job wait for each other, or no longer."""
        store, webhook = WebhookStore(self.database), self.webhooks[number % len(self.webhooks)]
        async with self.database.transaction() as connection:
            if row := await store.lock(connection, webhook, self.tenant):
                await store.update(connection, row, msgspec.structs.replace(row, ordered=not row.ordered))

    async def recover(self, number: int) -> None:
        store, webhook = WebhookStore(self.database), self.webhooks[number % len(self.webhooks)]
        since = datetime.now(UTC) - timedelta(days=30)
        async with self.database.transaction() as connection:
            row = await store.lock(connection, webhook, self.tenant)
            if row and row.disabled_at is None:
                await store.add_recovery(connection, ids.new(), webhook, since, None)

    async def erase(self, number: int) -> None:
        if self.jobs:
            job = self.jobs[number % len(self.jobs)]
            await self.database.fetch(
                "UPDATE jobs SET status = 'canceled', generation = 1, finished_at = now() "
                "WHERE id = $1 AND status = 'queued'",
                job,
            )
            try:
                await Eraser(self.database, delivery_wait=0.0).erase(self.tenant, job)
            except Problem:
                return  # a delivery is under way

    async def pass_time(self, seconds: float) -> None:
        await self.database.fetch(PASS_TIME, timedelta(seconds=seconds))

    async def find_pending(self) -> list[UUID]:
        return [
            record["id"] for record in await self.database.fetch("SELECT id FROM deliveries WHERE status = 'pending'")
        ]
