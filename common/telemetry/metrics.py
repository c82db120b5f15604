"""The metrics of every service. prometheus_client adds CPU, memory and open files."""

import asyncio

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call] # they are a fifth of all lines, and say only when counting began

TICK_SECONDS = 0.25
PIPELINES = "/pipelines"  # the label `model` of all runs: tenants name their pipelines, and no model has a slash

broker_connected = Gauge("charonia_broker_connected", "Whether the connection is up.", ["connection"])
broker_blocked = Gauge(
    "charonia_broker_blocked", "Whether the broker has blocked publishing, for lack of memory or disk."
)
queues_expected = Gauge("charonia_queues_expected", "Queues that this process subscribes to.")
queues_consumed = Gauge("charonia_queues_consumed", "Queues that this process consumes now.")
broker_dead_messages = Gauge("charonia_broker_dead_messages", "Messages in the queue charonia.dead.")
messages_unknown = Counter("charonia_messages_unknown", "Messages that only a later release handles.")
messages_failed = Counter("charonia_messages_failed", "Failures of message handlers.")
jobs_ended = Counter(
    "charonia_jobs_ended",
    "Jobs that reached a terminal state here, with reused jobs and those of steps. The model of all runs of pipelines "
    "is `/pipelines`. Jobs of steps that are canceled with their run before they begin do not count.",
    ["model", "status"],
)
database_wait_seconds = Histogram(
    "charonia_database_wait_seconds",
    "Time that statements waited for a connection of the pool.",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5),
)
database_connections = Gauge("charonia_database_connections", "Connections of the pools in use.")
database_connections_limit = Gauge("charonia_database_connections_limit", "Connections that the pools may have.")
batcher_items = Histogram(
    "charonia_batcher_items",
    "Items in one batch.",
    ["batcher"],
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 1000),
)
loop_lag_seconds = Histogram(
    "charonia_loop_lag_seconds",
    "How late the event loop wakes sleeping tasks.",
    buckets=(0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
jobs_reused = Counter(
    "charonia_jobs_reused",
    "Jobs, with those of steps, that took the result of another job: at their submit (`hit`), or after they waited for "
    "it (`join`).",
    ["model", "how"],
)
inference_saved_seconds = Counter(
    "charonia_inference_saved_seconds", "Duration of the attempts whose results other jobs took.", ["model"]
)


def count_reused(model: str, how: str, inference_ms: float | None) -> None:
    """Count a job that ended with the result of another one's attempt, and the time of that attempt."""
    jobs_ended.labels(model, "succeeded").inc()
    jobs_reused.labels(model, how).inc()
    inference_saved_seconds.labels(model).inc((inference_ms or 0.0) / 1000)


async def measure_loop_lag() -> None:
    """Measure the lag of the event loop, until cancelled."""
    clock = asyncio.get_running_loop().time
    while True:
        due = clock() + TICK_SECONDS
        await asyncio.sleep(TICK_SECONDS)
        loop_lag_seconds.observe(max(0.0, clock() - due))
