"""The wall clock of PostgreSQL and a notifier jumps ten minutes forward and back.

That causes no flood of deliveries, and nothing gets stuck.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from common import ids
from deploy.local.processes.clock import Clock
from deploy.local.processes.ports import free_ports
from deploy.local.servers.postgres import Postgres
from deploy.local.servers.rabbitmq import RabbitMQ
from deploy.local.services import Service, environment_for, migrate
from tests.support.database.backlog import ENDPOINT_CONCURRENCY, Backlog, open_backlog
from tests.support.database.seed import Subscriber, add_pending
from tests.support.receivers.hanging_receiver import open_hanging_receiver
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.waiting import eventually

JUMP = 600  # seconds
SCHEDULE = (0, 300, 1800)  # seconds before each attempt
JITTER = 0.2
SOON = 30.0  # seconds
SHORT_WAIT = 2.0  # seconds
LEASE = 30  # seconds a claim lasts by default
MARK_TRIED = "UPDATE deliveries SET attempt = 1, tries = 1 WHERE endpoint_id = $1"
SELECT_PLANNED = """
SELECT tries, extract(epoch FROM next_at - now())::double precision AS wait FROM deliveries WHERE endpoint_id = $1
"""
SELECT_WAITS = """
SELECT d.tries, extract(epoch FROM d.next_at - a.started_at)::double precision AS wait
FROM deliveries d
JOIN attempts a ON a.delivery_id = d.id AND a.number = d.attempt
WHERE d.endpoint_id = ANY($1::uuid[]) AND d.lease_until IS NULL
"""
DELIVERIES, ENDPOINTS, BUCKETS = 1000, 100, 10
SET_RATE_LIMIT = "UPDATE endpoints SET rate_limit = 2 WHERE id = $1"
OPEN_CIRCUIT = """
UPDATE endpoints
SET failures = 20, failing_since = now(), open_until = now() + make_interval(secs => $2),
    next_at = now() + make_interval(secs => $2)
WHERE id = $1
"""
MARK_FAILED = "UPDATE deliveries SET status = 'exhausted', next_at = NULL, finished_at = now() WHERE endpoint_id = $1"
INSERT_RECOVERY = """
INSERT INTO recoveries (id, webhook_id, since, until, next_at)
VALUES ($1, $2, now() - interval '1 hour', now(), now() + make_interval(secs => $3))
"""
SELECT_LONGEST_CLAIM = "SELECT extract(epoch FROM max(lease_until) - now())::double precision FROM deliveries"


@dataclass(frozen=True)
class FakeClockServices:
    clock: Clock
    environment: Mapping[str, str]


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory, rabbitmq: RabbitMQ) -> Iterator[FakeClockServices]:
    """A PostgreSQL and a notifier whose clock can be set."""
    directory: Path = tmp_path_factory.mktemp("clock")
    with ExitStack() as cleanup:
        clock = Clock()
        cleanup.callback(clock.delete)
        database_port, port = free_ports(2)
        postgres = Postgres(directory, database_port, durable=False, environment=clock.environment)
        cleanup.callback(postgres.delete)
        postgres.start()
        passed = clock.environment | {"CHARONIA_DELIVERY_SCHEDULE": ",".join(map(str, SCHEDULE))}
        broker = rabbitmq.create_vhost(f"clock_{uuid4().hex}")
        environment = environment_for(postgres.url, broker, "", "", directory, passed)
        migrate(environment, directory)
        notifier = Service("notifier", port, environment, directory)
        cleanup.callback(notifier.stop)
        notifier.start()
        yield FakeClockServices(clock, environment)


@pytest.fixture
async def backlog(services: FakeClockServices) -> AsyncIterator[Backlog]:
    async with open_backlog(services.environment) as backlog:
        yield backlog


async def test_jump_forward_delivers_each_due_webhook_once(
    services: FakeClockServices, backlog: Backlog, receiver: Receiver
) -> None:
    failing = receiver.inbox(*[503] * 100)
    async with (
        open_hanging_receiver() as hanging_receiver,
        backlog.subscribers([failing.url, hanging_receiver.url]) as (retried, hanging),
    ):
        await add_pending(backlog.database, hanging, 5 * ENDPOINT_CONCURRENCY)
        await add_pending(backlog.database, retried, 5, delay=SCHEDULE[1])
        await backlog.database.fetch(MARK_TRIED, retried.webhook_id)

        async def is_full() -> bool:
            return len(hanging_receiver.connections) == ENDPOINT_CONCURRENCY

        await eventually(is_full, f"{ENDPOINT_CONCURRENCY} attempts hang", SOON)
        assert failing.deliveries == []

        services.clock.jump(JUMP)
        await failing.wait(5, SOON)
        await backlog.add_events([retried.tenant_id])
        deliveries = await failing.wait(6, SOON)
        assert Counter(delivery.id for delivery in deliveries).most_common(1)[0][1] == 1
        assert all(abs(delivery.timestamp - delivery.at - services.clock.ahead) < SOON for delivery in deliveries)

        async def are_recorded() -> list[tuple[int, float]] | None:
            rows = await backlog.database.fetch(SELECT_PLANNED, retried.webhook_id)
            found = [(each["tries"], each["wait"]) for each in rows]
            return found if sorted(tries for tries, _ in found) == [1, 2, 2, 2, 2, 2] else None

        for tries, wait in await eventually(are_recorded, "all attempts are recorded", SOON):
            assert -SOON <= wait - SCHEDULE[tries] * (1 - JITTER) <= 2 * SCHEDULE[tries] * JITTER
        assert hanging_receiver.most_connections <= 2 * ENDPOINT_CONCURRENCY  # hanging claims expire once


async def test_retries_of_a_thousand_deliveries_are_spread_over_the_jitter(
    services: FakeClockServices, backlog: Backlog, receiver: Receiver
) -> None:
    """Check this after the first attempt, then after the second, once the clock has jumped over the wait."""
    urls = [receiver.inbox(*[500] * DELIVERIES).url for _ in range(ENDPOINTS)]
    async with backlog.subscribers(urls) as subscribers:
        for subscriber in subscribers:
            await add_pending(backlog.database, subscriber, DELIVERIES // ENDPOINTS)
        for tries, jump in ((1, 0), (2, JUMP)):
            services.clock.jump(jump)

            async def are_recorded(tries: int = tries) -> list[float] | None:
                found = await backlog.database.fetch(SELECT_WAITS, [each.webhook_id for each in subscribers])
                waits: list[float] = [each["wait"] for each in found if each["tries"] == tries]
                return waits if len(waits) == DELIVERIES else None

            waits = await eventually(are_recorded, f"all failed {tries} times", 2 * SOON)
            shortest = SCHEDULE[tries] * (1 - JITTER)
            assert all(0 <= wait - shortest < 2 * SCHEDULE[tries] * JITTER + SOON for wait in waits)
            buckets = Counter(int((wait - shortest) / (2 * SCHEDULE[tries] * JITTER) * BUCKETS) for wait in waits)
            assert len(buckets) >= BUCKETS
            assert max(buckets.values()) < 2 * DELIVERIES / BUCKETS  # ten standard deviations above an even spread


async def test_jump_back_delays_and_repeats_no_delivery(
    services: FakeClockServices, backlog: Backlog, receiver: Receiver
) -> None:
    inboxes = {kind: receiver.inbox() for kind in ("retried", "limited", "open", "failed", "missed")}
    urls = [inbox.url for inbox in inboxes.values()]
    async with (
        open_hanging_receiver() as hanging_receiver,
        backlog.subscribers([*urls, hanging_receiver.url]) as (*healthy, hanging),
    ):
        retried, limited, opened, failed, missed = healthy
        await add_pending(backlog.database, hanging, ENDPOINT_CONCURRENCY)

        async def is_full() -> bool:
            return len(hanging_receiver.connections) == ENDPOINT_CONCURRENCY

        await eventually(is_full, f"{ENDPOINT_CONCURRENCY} attempts hang", SOON)
        await add_waiting_deliveries(backlog, retried, limited, opened, failed)
        await inboxes["limited"].wait(2, SOON)
        await backlog.add_events([missed.tenant_id], lose_messages=True)

        services.clock.jump(-JUMP)
        await backlog.add_events([limited.tenant_id])

        async def are_claims_short() -> bool:
            """The claims must still be there: their attempts hang for no longer than 15 s."""
            ((longest,),) = await backlog.database.fetch(SELECT_LONGEST_CLAIM)
            return longest is not None and 0 < longest <= LEASE

        await eventually(are_claims_short, "the claims last no longer than before", SOON)
        expected = {"retried": 3, "limited": 9, "open": 3, "failed": 3, "missed": 1}

        async def has_ended() -> bool:
            counts = await backlog.count([each.webhook_id for each in healthy])
            return counts.succeeded == sum(expected.values())

        await eventually(has_ended, "everything is delivered", SOON)
        assert {kind: len(inbox.deliveries) for kind, inbox in inboxes.items()} == expected
        assert hanging_receiver.most_connections == ENDPOINT_CONCURRENCY


async def add_waiting_deliveries(
    backlog: Backlog, retried: Subscriber, limited: Subscriber, opened: Subscriber, failed: Subscriber
) -> None:
    """Add deliveries that wait for an attempt, a rate limit, a circuit and a recovery."""
    database = backlog.database
    await add_pending(database, retried, 3, delay=SHORT_WAIT)
    await database.fetch(SET_RATE_LIMIT, limited.webhook_id)
    await database.fetch(OPEN_CIRCUIT, opened.webhook_id, SHORT_WAIT)
    await add_pending(database, failed, 3, delay=3600)
    await database.fetch(MARK_FAILED, failed.webhook_id)
    await database.fetch(INSERT_RECOVERY, ids.new(), failed.webhook_id, SHORT_WAIT)
    await add_pending(database, limited, 8)
    await add_pending(database, opened, 3, delay=SHORT_WAIT)
