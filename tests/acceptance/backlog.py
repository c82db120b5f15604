"""Events and deliveries written straight into the database of a stack: through the API so many would take minutes."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple
from uuid import UUID

from benchmarks.receiver import NUMBER
from benchmarks.seed import Seeded, Subscriber, add_events, add_subscribers
from common import ids
from common.database import Database, columns
from common.outbox import ring_event, spread
from common.sealing import Sealer
from common.signing import new_secret
from tests.acceptance.receiver import Delivery
from tests.acceptance.shapes import Subscription

TENANT = "SELECT tenant_id FROM webhooks WHERE id = $1"
RING = """
INSERT INTO outbox (id, exchange, routing_key, body, traceparent, due_at)
SELECT *, now() + make_interval(secs => $6::double precision)
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[])
"""
EACH = 32  # attempts under way at a time to one endpoint, by default
HELD = "SELECT id FROM deliveries WHERE lease_until IS NOT NULL"
# While nobody sends, time may as well pass in the database alone.
PASS = """
WITH delivery AS (
  UPDATE deliveries SET next_at = next_at - interval '1 minute', lease_until = lease_until - interval '1 minute'
  WHERE status = 'pending'
)
UPDATE endpoints SET next_at = next_at - interval '1 minute'
"""
# Tenants stay, for nothing; what they were is gone.
DELETE = "DELETE FROM webhooks WHERE tenant_id = ANY($1::uuid[])"
COUNT = """
SELECT
  count(*) FILTER (WHERE status = 'pending' AND lease_until IS NULL) AS waiting,
  count(*) FILTER (WHERE lease_until IS NOT NULL) AS held,
  count(*) FILTER (WHERE status = 'succeeded') AS succeeded
FROM deliveries
WHERE endpoint_id = ANY($1::uuid[])
"""


class Counts(NamedTuple):
    """Deliveries of some endpoints; to those `held` an attempt is under way."""

    waiting: int
    held: int
    succeeded: int


class Backlog:
    def __init__(self, database: Database, sealer: Sealer) -> None:
        self.database = database
        self.sealer = sealer

    async def add_events(self, tenants: Sequence[UUID], delay: float = 0.0) -> list[Seeded]:
        """An event of each, with its doorbell in the outbox, to be relayed after a delay in seconds."""
        events = await add_events(self.database, tenants)
        rows = [spread(ring_event(event.id, "job.succeeded", event.traceparent)) for event in events]
        await self.database.fetch(RING, *columns(rows, 5), delay)
        return events

    async def count(self, endpoints: Sequence[UUID]) -> Counts:
        (found,) = await self.database.fetch(COUNT, endpoints)
        return Counts(*found.values())

    async def subscriber(self, subscription: Subscription) -> Subscriber:
        """One that was made through the API."""
        endpoint = endpoint_of(subscription.id)
        (found,) = await self.database.fetch(TENANT, endpoint)
        return Subscriber(found["tenant_id"], endpoint, subscription.url)

    async def settle(self) -> list[UUID]:
        """While no notifier runs: what was in flight when it died. Its claims have lapsed on return."""
        held = [record["id"] for record in await self.database.fetch(HELD)]
        await self.database.fetch(PASS)
        return held

    @asynccontextmanager
    async def subscribers(self, urls: Sequence[str]) -> AsyncIterator[list[Subscriber]]:
        """New tenants with a subscription each, gone at the end."""
        added = await add_subscribers(self.database, urls, self.sealer.seal(new_secret("hmac").encode()))
        try:
            yield added
        finally:
            await self.database.fetch(DELETE, [subscriber.tenant_id for subscriber in added])


@asynccontextmanager
async def open_backlog(environment: Mapping[str, str]) -> AsyncIterator[Backlog]:
    """Of services with this environment."""
    database = await Database.connect(environment["CHARONIA_DATABASE_URL"], application="tests")
    try:
        yield Backlog(database, Sealer([environment["CHARONIA_ENCRYPTION_KEYS"]]))
    finally:
        await database.close()


def endpoint_of(webhook_id: str) -> UUID:
    """A subscription's endpoint has its id."""
    found = ids.parse(ids.Kind.WEBHOOK, webhook_id)
    assert found is not None, webhook_id
    return found


def number_of(delivery: Delivery) -> int:
    """The number in the body of such an event."""
    found = NUMBER.search(delivery.request.body)
    assert found is not None, delivery.request.body
    return int(found[1])
