"""The wall clock of PostgreSQL and a notifier jumps ten minutes forward and back.

That causes no flood of deliveries, and stops no new ones.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from deploy.local.processes.clock import Clock
from deploy.local.processes.ports import free_ports
from deploy.local.servers.postgres import Postgres
from deploy.local.servers.rabbitmq import RabbitMQ
from deploy.local.services import Service, environment_for, migrate
from tests.support.database.backlog import ENDPOINT_CONCURRENCY, Backlog, open_backlog
from tests.support.database.seed import add_pending
from tests.support.receivers.hanging_receiver import open_hanging_receiver
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.waiting import eventually

JUMP = 600  # seconds
SCHEDULE = (0, 300, 1800)  # seconds before each attempt
JITTER = 0.2
SOON = 30.0  # seconds
SHORT_WAIT = 2.0  # seconds
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
DELIVERIES, ENDPOINTS, BUCKETS = 400, 40, 10


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


async def test_retries_of_many_deliveries_are_spread_over_the_jitter(
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
            assert max(buckets.values()) < 2 * DELIVERIES / BUCKETS  # six standard deviations above an even spread


async def test_jump_back_delays_only_what_waits_and_repeats_no_delivery(
    services: FakeClockServices, backlog: Backlog, receiver: Receiver
) -> None:
    inboxes = [receiver.inbox() for _ in range(3)]
    async with backlog.subscribers([inbox.url for inbox in inboxes]) as (retried, missed, fresh):
        await add_pending(backlog.database, retried, 3, delay=SHORT_WAIT)
        await backlog.add_events([missed.tenant_id], lose_messages=True)

        services.clock.jump(-JUMP)
        await backlog.add_events([fresh.tenant_id])
        await inboxes[1].wait(1, SOON)
        await inboxes[2].wait(1, SOON)
        assert inboxes[0].deliveries == []

        services.clock.jump(JUMP)
        await inboxes[0].wait(3, SOON)

        async def has_ended() -> bool:
            counts = await backlog.count([each.webhook_id for each in (retried, missed, fresh)])
            return counts.succeeded == 5

        await eventually(has_ended, "everything is recorded", SOON)
        assert [len(inbox.deliveries) for inbox in inboxes] == [3, 1, 1]
