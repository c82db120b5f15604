"""What every service counts of itself; CPU, memory and open files are prometheus_client's own."""

import asyncio

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call] # a fifth of all lines: since when each is counted

TICK_SECONDS = 0.25

broker_connected = Gauge("charonia_broker_connected", "Whether the connection is up.", ["connection"])
broker_blocked = Gauge("charonia_broker_blocked", "Whether the broker takes nothing, for want of memory or disk.")
queues_wanted = Gauge("charonia_queues_wanted", "Queues that this process is to consume.")
queues_consumed = Gauge("charonia_queues_consumed", "Queues that this process consumes at the moment.")
messages_dead = Gauge("charonia_messages_dead", "Messages in the queue charonia.dead.")
messages_failed = Counter("charonia_messages_failed", "Messages whose handler broke.")
jobs_ended = Counter("charonia_jobs_ended", "Jobs that reached a terminal state here.", ["model", "status"])
database_wait_seconds = Histogram(
    "charonia_database_wait_seconds",
    "Time until a connection of the pool was there, or was given up.",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5),
)
database_connections = Gauge("charonia_database_connections", "Connections of the pool in use.")
database_connections_limit = Gauge("charonia_database_connections_limit", "Connections that the pool may have.")
batcher_items = Histogram(
    "charonia_batcher_items",
    "Items that one statement carried for all who waited.",
    ["batcher"],
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 1000),
)
loop_lag_seconds = Histogram(
    "charonia_loop_lag_seconds",
    "How late the event loop wakes who has slept.",
    buckets=(0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)


async def measure_lag() -> None:
    """Until cancelled."""
    clock = asyncio.get_running_loop().time
    while True:
        due = clock() + TICK_SECONDS
        await asyncio.sleep(TICK_SECONDS)
        loop_lag_seconds.observe(max(0.0, clock() - due))
