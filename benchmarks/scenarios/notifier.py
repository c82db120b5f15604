"""The notifier alone: it delivers events that are all in its queue before it sees the first.

Events are written directly into the database. Rates are per second, and CPU is in ms per delivery.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from functools import partial
from uuid import UUID

from benchmarks.harness.bench import Bench, Scenario
from benchmarks.harness.receiver import Receiver
from benchmarks.harness.report import Figures, with_prefix
from deploy.local.servers.postgres import DATABASE
from tests.support.database.backlog import open_backlog
from tests.support.database.event_messages import publish
from tests.support.database.seed import Seeded, add_events

SIZES = (1, 100, 10_000)  # endpoints, each of a tenant of its own
EVENTS = 5_000  # in the queue, or one for each endpoint if there are more
WARM_EVENTS = 2_000
LOST_SECONDS = 240.0


def measure(bench: Bench, sizes: Sequence[int] = SIZES) -> Iterator[Figures]:
    url = bench.child("receiver").call(Receiver.listen)
    tenants = {size: asyncio.run(_subscribe(bench, [f"{url}/{number}" for number in range(size)])) for size in sizes}
    _deliver(bench, tenants[100], WARM_EVENTS)
    while True:
        figures: Figures = {}
        for size in sizes:
            figures |= with_prefix(f"full.{size}", _deliver(bench, tenants[size], max(EVENTS, size)))
        yield figures


def _deliver(bench: Bench, tenants: Sequence[UUID], count: int) -> Figures:
    """Put events of these tenants in turn into the queue while the notifier is frozen, and then let it continue."""
    events = asyncio.run(_add_events(bench, list(itertools.islice(itertools.cycle(tenants), count))))
    bench.stack.postgres.query("VACUUM ANALYZE", DATABASE)  # so that all parts get the same plans
    (notifier,) = bench.stack.notifiers
    notifier.freeze()
    try:
        bench.child("load").call(publish, amqp_url=bench.stack.rabbitmq.url, events=events)
        meter, begin = bench.meter("load", "receiver"), time.perf_counter()
    finally:
        notifier.thaw()
    arrived = bench.await_webhooks(count, LOST_SECONDS)
    bench.check_jobs()
    cpu = meter.read(count)
    return {"rate": count / (max(arrived.values()) - begin), "per_core": 1000 / cpu["cpu.notifier"], **cpu}


async def _subscribe(bench: Bench, urls: Sequence[str]) -> list[UUID]:
    async with open_backlog(bench.stack.environment) as backlog:
        return [subscriber.tenant_id for subscriber in await backlog.add_subscribers(urls)]


async def _add_events(bench: Bench, tenants: Sequence[UUID]) -> list[Seeded]:
    async with open_backlog(bench.stack.environment) as backlog:
        return await add_events(backlog.database, tenants)


COUNTS = {"gateways": 0, "dispatchers": 0}
SCENARIO = Scenario(measure, {"endpoints": SIZES, "events": EVENTS}, counts=COUNTS)
DELIVERIES = Scenario(partial(measure, sizes=(100,)), {"events": EVENTS}, counts=COUNTS)
