"""After an outage of a receiver, failed deliveries are sent again: each once, at a limited rate, whatever happens."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from common.postgres.database import Database
from deploy.local.stack import Stack
from tests.acceptance.conftest import RECOVERY_RATE
from tests.support.api.api_client import Api, read
from tests.support.api.api_shapes import Recovery, Subscription
from tests.support.database.backlog import (
    ENDPOINT_CONCURRENCY,
    Backlog,
    open_backlog,
    parse_endpoint_id,
    read_event_number,
)
from tests.support.database.seed import Subscriber, add_pending
from tests.support.receivers.webhook_receiver import Inbox, Receiver
from tests.support.waiting import eventually

FAILED = 1_000
OTHERS = 20  # deliveries that failed before and after the outage
WITHIN = 60.0  # seconds
# Of ten deliveries in $1, eight were given up, one was canceled, and one is due in an hour.
MARK_FAILED = """
UPDATE deliveries d
SET status = new.status, attempt = 3, tries = 3,
    next_at = CASE WHEN new.status = 'pending' THEN now() + interval '1 hour' END,
    finished_at = CASE WHEN new.status <> 'pending' THEN now() END,
    generation = CASE WHEN new.status <> 'pending' THEN current_generation() ELSE 0 END
FROM (
  SELECT id, CASE number % 10 WHEN 0 THEN 'canceled' WHEN 5 THEN 'pending' ELSE 'exhausted' END AS status
  FROM unnest($1::uuid[]) WITH ORDINALITY AS t(id, number)
) new
WHERE d.id = new.id
"""
COUNT_DUE = """
SELECT count(*) FROM deliveries
WHERE endpoint_id = $1 AND status = 'pending' AND lease_until IS NULL AND next_at <= now()
"""
NOW = "SELECT now()"


class RecoveryMonitor:
    """Follows a running recovery, and checks its rate at every poll."""

    def __init__(self, api: Api, backlog: Backlog, recovery: Recovery, began: float) -> None:
        """`began` is a time on the loop's clock before the recovery was requested."""
        self.api = api
        self._backlog = backlog
        self.recovery = recovery
        self._began = began
        self.most_due = 0

    async def poll(self) -> Recovery:
        response = await self.api.http.get(f"/v1/webhooks/{self.recovery.webhook_id}/recoveries/{self.recovery.id}")
        found = read(response, 200, Recovery)
        seconds = asyncio.get_running_loop().time() - self._began
        assert found.recovered <= RECOVERY_RATE * (seconds + 1)
        ((due,),) = await self._backlog.database.fetch(COUNT_DUE, parse_endpoint_id(found.webhook_id))
        self.most_due = max(self.most_due, due)
        return found

    async def wait(self, recovered: int) -> None:
        async def poll() -> bool:
            return (await self.poll()).recovered >= recovered

        await eventually(poll, f"{recovered} were recovered", WITHIN)

    async def deliver_new_events(self, subscribers: Sequence[Subscriber], inboxes: Sequence[Inbox]) -> list[int]:
        """Add new events, wait until they are delivered during the recovery, and return their numbers."""
        events = await self._backlog.add_events([each.tenant_id for each in subscribers])
        expected = {event.number for event in events}

        async def poll() -> bool:
            await self.poll()
            return expected <= {read_event_number(delivery) for inbox in inboxes for delivery in inbox.deliveries}

        await eventually(poll, "the new events are delivered", WITHIN)
        assert (await self.poll()).status == "processing", "the recovery ended before the new events were delivered"
        return [event.number for event in events]


async def test_recovery_sends_each_failed_delivery_once_throttled_and_survives_a_kill(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    inbox, other = receiver.inbox(), receiver.inbox()
    (notifier,) = breakable.notifiers
    async with (
        api.subscribed(inbox.url) as subscription,
        open_backlog(breakable.environment) as backlog,
        backlog.subscribers([other.url]) as (other_subscriber,),
    ):
        subscriber = await backlog.find_subscriber(subscription)
        await fail(backlog.database, subscriber, OTHERS)
        since = await read_time(backlog.database)
        failed = await fail(backlog.database, subscriber, FAILED)
        until = await read_time(backlog.database)
        await fail(backlog.database, subscriber, OTHERS)

        began = asyncio.get_running_loop().time()
        monitor = RecoveryMonitor(api, backlog, await recover(api, subscription, since, until), began)
        await monitor.wait(1)
        new_events = await monitor.deliver_new_events([subscriber, other_subscriber], [inbox, other])
        await asyncio.to_thread(notifier.kill)
        in_flight = await backlog.expire_claims()
        await asyncio.to_thread(notifier.start)
        new_events += await monitor.deliver_new_events([subscriber, other_subscriber], [inbox, other])
        await monitor.wait(FAILED)
        own_new = len(new_events) // 2

        async def has_ended() -> bool:
            delivered = (await backlog.count([subscriber.webhook_id])).succeeded
            return delivered == FAILED + own_new and (await monitor.poll()).status == "completed"

        await eventually(has_ended, "all failed deliveries are sent", WITHIN)
        done = await monitor.poll()

    assert (done.status, done.recovered) == ("completed", FAILED)
    # Deliveries in flight at the kill become due once more.
    assert monitor.most_due <= RECOVERY_RATE + own_new + ENDPOINT_CONCURRENCY
    numbers = [read_event_number(delivery) for delivery in inbox.deliveries]
    check_arrivals([each for each in numbers if each not in new_events], failed, in_flight)


async def fail(database: Database, subscriber: Subscriber, count: int) -> dict[UUID, int]:
    """Add deliveries that have failed, oldest first. Return the numbers of their events by delivery id."""
    added = await add_pending(database, subscriber, count, delay=3600)
    await database.fetch(MARK_FAILED, list(added))
    return added


async def read_time(database: Database) -> datetime:
    ((now,),) = await database.fetch(NOW)
    assert isinstance(now, datetime)
    return now


async def recover(api: Api, subscription: Subscription, since: datetime, until: datetime) -> Recovery:
    times = {"since": since.isoformat(), "until": until.isoformat()}
    return read(await api.http.post(f"/v1/webhooks/{subscription.id}/recoveries", json=times), 202, Recovery)


def check_arrivals(numbers: Sequence[int], failed: Mapping[UUID, int], in_flight: Sequence[UUID]) -> None:
    """Check that all failed events arrived, and no others, oldest first.

    Only deliveries in flight at the kill may arrive twice.
    """
    counts = Counter(numbers)
    assert counts.keys() == set(failed.values())
    assert {number for number, times in counts.items() if times > 1} <= {
        failed[each] for each in in_flight if each in failed
    }
    assert max(counts.values()) <= 2
    ranks = {number: rank for rank, number in enumerate(failed.values())}
    lead = max(ranks[number] - place for place, number in enumerate(numbers))
    assert lead <= RECOVERY_RATE + ENDPOINT_CONCURRENCY
