"""Events and deliveries written directly into a stack's database. The API would take minutes for as many."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple
from uuid import UUID

from common import ids
from common.postgres.database import Database
from common.security.encryption import Encryptor
from common.security.webhook_signatures import new_secret
from tests.support.api.api_shapes import Subscription
from tests.support.database.event_messages import publish
from tests.support.database.seed import NUMBER, Seeded, Subscriber, add_events, add_subscribers
from tests.support.receivers.webhook_receiver import Delivery

SELECT_TENANT = "SELECT tenant_id FROM webhooks WHERE id = $1"
ENDPOINT_CONCURRENCY = 32  # the default number of attempts in flight to one endpoint
SELECT_CLAIMED = "SELECT id FROM deliveries WHERE lease_until IS NOT NULL"
# While no notifier runs, moving the times in the database is as good as waiting.
ADVANCE_ONE_MINUTE = """
WITH delivery AS (
  UPDATE deliveries SET next_at = next_at - interval '1 minute', lease_until = lease_until - interval '1 minute'
  WHERE status = 'pending'
)
UPDATE endpoints SET next_at = next_at - interval '1 minute'
"""
# The tenants stay, because they do no harm.
DELETE_WEBHOOKS = """
WITH locked AS MATERIALIZED ( -- endpoints before deliveries, as a notifier does
  SELECT id FROM endpoints WHERE tenant_id = ANY($1::uuid[]) ORDER BY id FOR UPDATE
), in_flight AS MATERIALIZED (
  SELECT id
  FROM deliveries
  WHERE tenant_id = ANY($1::uuid[]) AND lease_until IS NOT NULL AND (SELECT count(*) FROM locked) >= 0
  ORDER BY id
  FOR UPDATE
)
DELETE FROM webhooks WHERE tenant_id = ANY($1::uuid[]) AND (SELECT count(*) FROM in_flight) >= 0
"""
COUNT = """
SELECT
  count(*) FILTER (WHERE status = 'pending' AND lease_until IS NULL) AS waiting,
  count(*) FILTER (WHERE lease_until IS NOT NULL) AS claimed,
  count(*) FILTER (WHERE status = 'succeeded') AS succeeded
FROM deliveries
WHERE endpoint_id = ANY($1::uuid[])
"""


class Counts(NamedTuple):
    """Deliveries of some endpoints. An attempt is in flight for each `claimed` one."""

    waiting: int
    claimed: int
    succeeded: int


class Backlog:
    def __init__(self, database: Database, encryptor: Encryptor, amqp_url: str) -> None:
        self.database = database
        self._encryptor = encryptor
        self._amqp_url = amqp_url

    async def add_events(self, tenants: Sequence[UUID], *, lose_messages: bool = False) -> list[Seeded]:
        """Add an event for each tenant, and publish its message."""
        events = await add_events(self.database, tenants)
        if not lose_messages:
            await publish(self._amqp_url, events)
        return events

    async def count(self, endpoints: Sequence[UUID]) -> Counts:
        (found,) = await self.database.fetch(COUNT, endpoints)
        return Counts(*found.values())

    async def find_subscriber(self, subscription: Subscription) -> Subscriber:
        """Return a subscription that was made through the API as a subscriber."""
        endpoint = parse_endpoint_id(subscription.id)
        (found,) = await self.database.fetch(SELECT_TENANT, endpoint)
        return Subscriber(found["tenant_id"], endpoint, subscription.url)

    async def expire_claims(self) -> list[UUID]:
        """Expire the claims of a notifier that was killed, and return the deliveries it had in flight.

        Call it while no notifier runs.
        """
        claimed = [record["id"] for record in await self.database.fetch(SELECT_CLAIMED)]
        await self.database.fetch(ADVANCE_ONE_MINUTE)
        return claimed

    async def add_subscribers(self, urls: Sequence[str]) -> list[Subscriber]:
        """Add a tenant with one subscription for each URL."""
        return await add_subscribers(self.database, urls, self._encryptor.encrypt(new_secret("hmac").encode()))

    @asynccontextmanager
    async def subscribers(self, urls: Sequence[str]) -> AsyncIterator[list[Subscriber]]:
        """Create tenants with one subscription each. Their subscriptions are deleted at the end."""
        added = await self.add_subscribers(urls)
        try:
            yield added
        finally:
            await self.database.fetch(DELETE_WEBHOOKS, [each.tenant_id for each in added])


@asynccontextmanager
async def open_backlog(environment: Mapping[str, str]) -> AsyncIterator[Backlog]:
    """Open the backlog of services with this environment."""
    database = await Database.connect(environment["CHARONIA_DATABASE_URL"], application="tests")
    try:
        encryptor = Encryptor([environment["CHARONIA_ENCRYPTION_KEYS"]])
        yield Backlog(database, encryptor, environment["CHARONIA_AMQP_URL"])
    finally:
        await database.close()


def parse_endpoint_id(webhook_id: str) -> UUID:
    """Return the id of a subscription's endpoint, which is the subscription's own."""
    found = ids.parse(ids.Kind.WEBHOOK, webhook_id)
    assert found is not None, webhook_id
    return found


def read_event_number(delivery: Delivery) -> int:
    """Return the event's number from the body of its webhook."""
    found = NUMBER.search(delivery.request.body)
    assert found is not None, delivery.request.body
    return int(found[1])
