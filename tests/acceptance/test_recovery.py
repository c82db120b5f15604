"""After an outage of a receiver what failed is sent again: each once, a few at a time, whatever happens meanwhile."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

from benchmarks.seed import Subscriber, add_pending
from common.database import Database
from deploy.local.stack import Stack
from tests.acceptance.backlog import EACH, Backlog, endpoint_of, number_of, open_backlog
from tests.acceptance.client import Api, read
from tests.acceptance.conftest import RECOVERY_RATE
from tests.acceptance.receiver import Inbox, Receiver
from tests.acceptance.shapes import Strict, Subscription
from tests.acceptance.waiting import eventually

FAILED = 5_000
OTHERS = 20  # failed before and after the outage
SOON = 60.0  # seconds
# Of deliveries ($1): eight of ten were given up, one was dropped, one waits for its next attempt in an hour.
FAIL = """
UPDATE deliveries d
SET status = new.status, attempt = 3, tries = 3,
    next_at = CASE WHEN new.status = 'pending' THEN now() + interval '1 hour' END,
    finished_at = CASE WHEN new.status <> 'pending' THEN now() END
FROM (
  SELECT id, CASE number % 10 WHEN 0 THEN 'canceled' WHEN 5 THEN 'pending' ELSE 'exhausted' END AS status
  FROM unnest($1::uuid[]) WITH ORDINALITY AS t(id, number)
) new
WHERE d.id = new.id
"""
DUE = """
SELECT count(*) FROM deliveries
WHERE endpoint_id = $1 AND status = 'pending' AND lease_until IS NULL AND next_at <= now()
"""
NOW = "SELECT now()"


class Recovery(Strict, frozen=True):
    id: str
    webhook_id: str
    since: datetime
    until: datetime
    status: Literal["running", "done"]
    recovered: int


class Watch:
    """A recovery under way, held to its rate at every look."""

    def __init__(self, api: Api, backlog: Backlog, recovery: Recovery) -> None:
        self.api = api
        self.backlog = backlog
        self.recovery = recovery
        self.began = asyncio.get_running_loop().time()
        self.most_due = 0

    async def look(self) -> Recovery:
        answer = await self.api.http.get(f"/v1/webhooks/{self.recovery.webhook_id}/recoveries/{self.recovery.id}")
        found = read(answer, 200, Recovery)
        seconds = asyncio.get_running_loop().time() - self.began
        assert found.recovered <= RECOVERY_RATE * (seconds + 1)
        ((due,),) = await self.backlog.database.fetch(DUE, endpoint_of(found.webhook_id))
        self.most_due = max(self.most_due, due)
        return found

    async def wait(self, recovered: int) -> None:
        async def look() -> bool:
            return (await self.look()).recovered >= recovered

        await eventually(look, f"{recovered} were recovered", SOON)

    async def pass_by(self, subscribers: Sequence[Subscriber], inboxes: Sequence[Inbox]) -> list[int]:
        """New events of these, which arrive while the recovery goes on; their numbers."""
        events = await self.backlog.add_events([each.tenant_id for each in subscribers])
        wanted = {event.number for event in events}

        async def look() -> bool:
            await self.look()
            return wanted <= {number_of(delivery) for inbox in inboxes for delivery in inbox.deliveries}

        await eventually(look, "what is new arrives", SOON)
        assert (await self.look()).status == "running", "all that failed was sent before what is new"
        return [event.number for event in events]


async def test_an_outage_is_recovered_from_once_throttled_and_resumed(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    inbox, other = receiver.inbox(), receiver.inbox()
    (notifier,) = breakable.notifiers
    async with (
        api.subscribed(inbox.url) as subscription,
        open_backlog(breakable.environment) as backlog,
        backlog.subscribers([other.url]) as (neighbour,),
    ):
        subscriber = await backlog.subscriber(subscription)
        await fail(backlog.database, subscriber, OTHERS)
        since = await read_time(backlog.database)
        failed = await fail(backlog.database, subscriber, FAILED)
        until = await read_time(backlog.database)
        await fail(backlog.database, subscriber, OTHERS)

        watch = Watch(api, backlog, await recover(api, subscription, since, until))
        await watch.wait(1)
        fresh = await watch.pass_by([subscriber, neighbour], [inbox, other])
        await asyncio.to_thread(notifier.kill)
        held = await backlog.settle()
        await asyncio.to_thread(notifier.start)
        fresh += await watch.pass_by([subscriber, neighbour], [inbox, other])
        await watch.wait(FAILED)
        own = len(fresh) // 2

        async def is_over() -> bool:
            delivered = (await backlog.count([subscriber.webhook_id])).succeeded
            return delivered == FAILED + own and (await watch.look()).status == "done"

        await eventually(is_over, "all that failed is delivered", SOON)
        done = await watch.look()

    assert (done.status, done.recovered) == ("done", FAILED)
    assert watch.most_due <= RECOVERY_RATE + own + EACH  # what was in flight at the kill is due once more
    numbers = [number_of(delivery) for delivery in inbox.deliveries]
    check_arrivals([each for each in numbers if each not in fresh], failed, held)


async def fail(database: Database, subscriber: Subscriber, count: int) -> dict[UUID, int]:
    """New deliveries that have failed, oldest first, with the numbers of their events."""
    added = await add_pending(database, subscriber, count, delay=3600)
    await database.fetch(FAIL, list(added))
    return added


async def read_time(database: Database) -> datetime:
    ((now,),) = await database.fetch(NOW)
    assert isinstance(now, datetime)
    return now


async def recover(api: Api, subscription: Subscription, since: datetime, until: datetime) -> Recovery:
    times = {"since": since.isoformat(), "until": until.isoformat()}
    return read(await api.http.post(f"/v1/webhooks/{subscription.id}/recover", json=times), 202, Recovery)


def check_arrivals(numbers: Sequence[int], failed: Mapping[UUID, int], held: Sequence[UUID]) -> None:
    """All of them and no others, oldest first, and twice only what was in flight when the notifier was killed."""
    came = Counter(numbers)
    assert came.keys() == set(failed.values())
    assert {number for number, times in came.items() if times > 1} <= {failed[each] for each in held if each in failed}
    assert max(came.values()) <= 2
    ranks = {number: rank for rank, number in enumerate(failed.values())}
    ahead = max(ranks[number] - place for place, number in enumerate(numbers))
    assert ahead <= RECOVERY_RATE + EACH
