"""The wall clock jumps ten minutes, forward and back, for PostgreSQL and a notifier: no storm, and nothing is stuck."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from benchmarks.seed import Subscriber, add_pending
from common import ids
from deploy.local.clock import Clock
from deploy.local.ports import free_ports
from deploy.local.postgres import Postgres
from deploy.local.rabbitmq import RabbitMQ
from deploy.local.services import Service, encryption_key, environment_for, migrate
from tests.acceptance.backlog import EACH, Backlog, open_backlog
from tests.acceptance.pit import dig
from tests.acceptance.receiver import Receiver
from tests.acceptance.waiting import eventually

JUMP = 600  # seconds
SCHEDULE = (0, 300, 1800)  # seconds before each attempt
JITTER = 0.2
SOON = 30.0  # seconds
AWHILE = 2.0  # seconds
LEASE = 30  # seconds of a claim, by default
TRIED = "UPDATE deliveries SET attempt = 1, tries = 1 WHERE endpoint_id = $1"
PLANNED = """
SELECT tries, extract(epoch FROM next_at - now())::double precision AS wait FROM deliveries WHERE endpoint_id = $1
"""
WAITS = """
SELECT d.tries, extract(epoch FROM d.next_at - a.started_at)::double precision AS wait
FROM deliveries d
JOIN attempts a ON a.delivery_id = d.id AND a.number = d.attempt
WHERE d.endpoint_id = ANY($1::uuid[]) AND d.lease_until IS NULL
"""
TOGETHER, ENDPOINTS, TENTHS = 1000, 100, 10
LIMIT = "UPDATE endpoints SET rate_limit = 2 WHERE id = $1"
OPEN = """
UPDATE endpoints
SET failures = 20, failing_since = now(), open_until = now() + make_interval(secs => $2),
    next_at = now() + make_interval(secs => $2)
WHERE id = $1
"""
FAIL = "UPDATE deliveries SET status = 'exhausted', next_at = NULL, finished_at = now() WHERE endpoint_id = $1"
RECOVER = """
INSERT INTO recoveries (id, webhook_id, since, until, next_at)
VALUES ($1, $2, now() - interval '1 hour', now(), now() + make_interval(secs => $3))
"""
LONGEST = "SELECT extract(epoch FROM max(lease_until) - now())::double precision AS seconds FROM deliveries"


@dataclass(frozen=True)
class Faked:
    clock: Clock
    environment: Mapping[str, str]


@pytest.fixture(scope="module")
def faked(tmp_path_factory: pytest.TempPathFactory, rabbitmq: RabbitMQ) -> Iterator[Faked]:
    """A PostgreSQL and a notifier whose clock can be set."""
    directory: Path = tmp_path_factory.mktemp("clock")
    with ExitStack() as stopping:
        clock = Clock()
        stopping.callback(clock.delete)
        database_port, port = free_ports(2)
        postgres = Postgres(directory, database_port, durable=False, environment=clock.environment)
        stopping.callback(postgres.delete)
        postgres.start()
        passed = clock.environment | {"CHARONIA_DELIVERY_SCHEDULE": ",".join(map(str, SCHEDULE))}
        broker = rabbitmq.create_vhost(f"clock_{uuid4().hex}")
        environment = environment_for(postgres.url, broker, "", "", encryption_key(directory), passed)
        migrate(environment, directory)
        notifier = Service("notifier", port, environment, directory)
        stopping.callback(notifier.stop)
        notifier.start()
        yield Faked(clock, environment)


@pytest.fixture
async def backlog(faked: Faked) -> AsyncIterator[Backlog]:
    async with open_backlog(faked.environment) as backlog:
        yield backlog


async def test_forward_everything_due_comes_once_and_no_more(
    faked: Faked, backlog: Backlog, receiver: Receiver
) -> None:
    failing = receiver.inbox(*[503] * 100)
    async with dig() as pit, backlog.subscribers([failing.url, pit.url]) as (retried, hanging):
        await add_pending(backlog.database, hanging, 5 * EACH)
        await add_pending(backlog.database, retried, 5, delay=SCHEDULE[1])
        await backlog.database.fetch(TRIED, retried.webhook_id)

        async def is_held() -> bool:
            return len(pit.held) == EACH

        await eventually(is_held, f"{EACH} attempts hang", SOON)
        assert failing.deliveries == []

        faked.clock.jump(JUMP)
        await failing.wait(5, SOON)
        await backlog.add_events([retried.tenant_id])
        deliveries = await failing.wait(6, SOON)
        assert Counter(delivery.id for delivery in deliveries).most_common(1)[0][1] == 1
        assert all(abs(delivery.timestamp - delivery.at - faked.clock.ahead) < SOON for delivery in deliveries)

        async def are_planned() -> list[tuple[int, float]] | None:
            found = [
                (each["tries"], each["wait"]) for each in await backlog.database.fetch(PLANNED, retried.webhook_id)
            ]
            return found if sorted(tries for tries, _ in found) == [1, 2, 2, 2, 2, 2] else None

        for tries, wait in await eventually(are_planned, "all attempts are recorded", SOON):
            assert -SOON <= wait - SCHEDULE[tries] * (1 - JITTER) <= 2 * SCHEDULE[tries] * JITTER
        assert pit.most <= 2 * EACH  # the claims of what hangs have lapsed, once


async def test_a_thousand_that_failed_together_come_back_spread_over_the_jitter(
    faked: Faked, backlog: Backlog, receiver: Receiver
) -> None:
    """After the first attempt, and once the clock has passed over that wait, after the second."""
    urls = [receiver.inbox(*[500] * TOGETHER).url for _ in range(ENDPOINTS)]
    async with backlog.subscribers(urls) as subscribers:
        for subscriber in subscribers:
            await add_pending(backlog.database, subscriber, TOGETHER // ENDPOINTS)
        for tries, jump in ((1, 0), (2, JUMP)):
            faked.clock.jump(jump)

            async def are_planned(tries: int = tries) -> list[float] | None:
                found = await backlog.database.fetch(WAITS, [each.webhook_id for each in subscribers])
                waits: list[float] = [each["wait"] for each in found if each["tries"] == tries]
                return waits if len(waits) == TOGETHER else None

            waits = await eventually(are_planned, f"all failed {tries} times", 2 * SOON)
            least = SCHEDULE[tries] * (1 - JITTER)
            assert all(0 <= wait - least < 2 * SCHEDULE[tries] * JITTER + SOON for wait in waits)
            tenths = Counter(int((wait - least) / (2 * SCHEDULE[tries] * JITTER) * TENTHS) for wait in waits)
            assert len(tenths) >= TENTHS
            assert max(tenths.values()) < 2 * TOGETHER / TENTHS  # ten standard deviations above what is even


async def test_back_nothing_waits_longer_and_nothing_comes_twice(
    faked: Faked, backlog: Backlog, receiver: Receiver
) -> None:
    inboxes = {kind: receiver.inbox() for kind in ("retried", "limited", "open", "failed", "relayed")}
    urls = [inbox.url for inbox in inboxes.values()]
    async with dig() as pit, backlog.subscribers([*urls, pit.url]) as (*healthy, hanging):
        retried, limited, opened, failed, relayed = healthy
        await add_pending(backlog.database, hanging, EACH)

        async def is_held() -> bool:
            return len(pit.held) == EACH

        await eventually(is_held, f"{EACH} attempts hang", SOON)
        await make_wait(backlog, retried, limited, opened, failed)
        await backlog.add_events([relayed.tenant_id], delay=AWHILE)
        await inboxes["limited"].wait(2, SOON)

        faked.clock.jump(-JUMP)
        await backlog.add_events([limited.tenant_id])
        wanted = {"retried": 3, "limited": 9, "open": 3, "failed": 3, "relayed": 1}

        async def is_over() -> bool:
            counts = await backlog.count([each.webhook_id for each in healthy])
            return counts.succeeded == sum(wanted.values())

        await eventually(is_over, "everything is delivered", SOON)
        assert {kind: len(inbox.deliveries) for kind, inbox in inboxes.items()} == wanted
        ((longest,),) = await backlog.database.fetch(LONGEST)
        assert 0 < longest <= LEASE
        assert pit.most == EACH


async def make_wait(
    backlog: Backlog, retried: Subscriber, limited: Subscriber, opened: Subscriber, failed: Subscriber
) -> None:
    """For the next attempt, for the rate limit, for the circuit, for a recovery to go on."""
    database = backlog.database
    await add_pending(database, retried, 3, delay=AWHILE)
    await database.fetch(LIMIT, limited.webhook_id)
    await database.fetch(OPEN, opened.webhook_id, AWHILE)
    await add_pending(database, failed, 3, delay=3600)
    await database.fetch(FAIL, failed.webhook_id)
    await database.fetch(RECOVER, ids.new(), failed.webhook_id, AWHILE)
    await add_pending(database, limited, 8)
    await add_pending(database, opened, 3, delay=AWHILE)
