"""Metrics that only the database can count: queues, dead letters, events, webhooks.

One process counts, and others may show what it counted before. So take the maximum over instances. Counts are bounded.
The pause after a count is many times as long as the count took.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterable
from uuid import UUID

import asyncpg
from prometheus_client import Gauge

from common.errors import Unavailable
from common.job_states import Priority, Status
from common.postgres import sql
from common.postgres.database import Database
from common.telemetry.logs import Log
from common.telemetry.outage import Outage

QUERIES = sql.load("common.postgres", "database_metrics.sql")
MAX_COUNT = 100_000  # a gauge with this value says "at least"
INTERVAL_SECONDS = 10.0
PAUSE_FACTOR = 20  # so that counting takes at most a twentieth of one connection's time
STALE_SECONDS = 60.0  # or three pauses: then the gauges are cleared
DEADLINE_SECONDS = 10.0
NIL = UUID(int=0)
RUNNING = (Status.PROCESSING, Status.CANCELING)

jobs = Gauge(
    "charonia_jobs",
    "Jobs that have not ended, with scheduled ones and those of steps. Runs of pipelines do not count.",
    ["model", "status"],
)
queue_depth = Gauge("charonia_queue_depth", "Jobs that can run now.", ["model", "priority"])
joined = Gauge("charonia_jobs_joined", "Jobs that wait for the result of another job.", ["model"])
startable = Gauge("charonia_jobs_startable", "Jobs that can run now, within what operators allow.", ["model"])
queue_oldest = Gauge("charonia_queue_oldest_seconds", "How long the oldest of them has waited.", ["model", "priority"])
running_oldest = Gauge("charonia_running_oldest_seconds", "How long the oldest attempt has run.", ["model"])
dead_letters = Gauge("charonia_dead_letters", "Failed jobs and runs that are kept. Jobs of steps do not count.")
new_deliveries = Gauge("charonia_new_deliveries", "Deliveries that no notifier has taken yet.")
new_deliveries_oldest = Gauge("charonia_new_deliveries_oldest_seconds", "Age of the oldest of them.")
delivery_lag = Gauge("charonia_delivery_lag_seconds", "How long the oldest due delivery has been due.")
subscriptions_disabled = Gauge("charonia_subscriptions_disabled", "Subscriptions that were disabled after failures.")
endpoint_circuits_open = Gauge("charonia_endpoint_circuits_open", "Endpoints with at most one attempt at a time.")
metrics_seconds = Gauge("charonia_database_metrics_seconds", "Duration of the latest count.")
metrics_time = Gauge("charonia_database_metrics_timestamp_seconds", "Unix time of the latest count.")

_BY_MODEL = (jobs, queue_depth, joined, startable, queue_oldest, running_oldest)
_WITHOUT_LABELS = (
    dead_letters,
    new_deliveries,
    new_deliveries_oldest,
    delivery_lag,
    subscriptions_disabled,
    endpoint_circuits_open,
    metrics_seconds,
)

log = Log("database_metrics")


async def collect_metrics(database: Database) -> None:
    """Count again and again, until cancelled. Then another process counts, so clear the gauges."""
    clearing: asyncio.TimerHandle | None = None
    outage = Outage()
    try:
        while True:
            began = time.monotonic()
            try:
                await count(database)
            except Unavailable as error:
                if outage.begin():
                    log.warning("database_metrics.unavailable", error=error)
                pause = _pause_after(began)
            else:
                outage.end()
                metrics_seconds.set(time.monotonic() - began)
                metrics_time.set_to_current_time()
                pause = _pause_after(began)
                if clearing is not None:
                    clearing.cancel()
                clearing = asyncio.get_running_loop().call_later(max(STALE_SECONDS, 3 * pause), _clear)
            await asyncio.sleep(pause)
    finally:
        if clearing is not None:
            clearing.cancel()
        _clear()


def _pause_after(began: float) -> float:
    return max(INTERVAL_SECONDS, PAUSE_FACTOR * (time.monotonic() - began))


def _clear() -> None:
    """Clear gauges that this process does not count now: an old value could stay the maximum of all instances."""
    for gauge in _BY_MODEL:
        gauge.clear()
    for gauge in _WITHOUT_LABELS:
        gauge.set(math.nan)


_clear()  # 0 would mean that there is none


async def count(database: Database) -> None:
    """Count once and set the gauges. Raise DatabaseUnavailable, and leave the gauges, if that fails."""
    async with database.transaction(DEADLINE_SECONDS) as connection:
        await connection.execute(QUERIES["disable_jit"])
        queues = await connection.fetch(QUERIES["count_queues"], list(Priority), MAX_COUNT)
        running = await connection.fetch(QUERIES["count_running"])
        totals = await connection.fetchrow(QUERIES["count_totals"], MAX_COUNT, NIL)
    assert totals is not None, "the query returns one row"
    for gauge in _BY_MODEL:
        gauge.clear()  # drops models that have left the catalogue; no scrape runs in between
    _set_queues(queues)
    _set_running(running)
    _set_startable(queues, running)
    _set_totals(totals)


def _set_queues(queues: Iterable[asyncpg.Record]) -> None:
    for record in queues:
        model, priority = record["model"], record["priority"]
        queue_depth.labels(model, priority).set(record["ready"])
        queue_oldest.labels(model, priority).set(_to_age(record["seconds"]))
        jobs.labels(model, Status.QUEUED).inc(record["waiting"])
        joined.labels(model).inc(record["joined"])
        for status in RUNNING:
            jobs.labels(model, status)
        running_oldest.labels(model)


def _set_running(running: Iterable[asyncpg.Record]) -> None:
    for record in running:
        for status in RUNNING:
            jobs.labels(record["model"], status).set(record[status])
        running_oldest.labels(record["model"]).set(_to_age(record["seconds"]))


def _set_startable(queues: Iterable[asyncpg.Record], running: Iterable[asyncpg.Record]) -> None:
    """Set what autoscaling counts beside running jobs. Limits of each tenant are not among what it considers."""
    busy = {record["model"]: sum(record[status] for status in RUNNING) for record in running}
    waiting: Counter[str] = Counter()
    for record in queues:
        waiting[record["model"]] += 0 if record["is_paused"] else record["of_active_tenants"]
    for record in queues:
        model, most = record["model"], record["max_running"]
        room = math.inf if most is None else max(0, most - busy.get(model, 0))
        startable.labels(model).set(min(waiting[model], room))


def _set_totals(totals: asyncpg.Record) -> None:
    dead_letters.set(totals["dead_letters"])
    new_deliveries.set(totals["new_deliveries"])
    new_deliveries_oldest.set(_to_age(totals["new_seconds"]))
    delivery_lag.set(_to_age(totals["due_seconds"]))
    subscriptions_disabled.set(totals["disabled"])
    endpoint_circuits_open.set(totals["open"])


def _to_age(seconds: float | None) -> float:
    """Return 0 for no row, and for a time in the future (after the clock was set back)."""
    return max(0.0, seconds or 0.0)
