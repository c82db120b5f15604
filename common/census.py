"""What can only be counted in the database, for the metrics: queues, dead letters, the outbox, webhooks.

Every dispatcher and every notifier counts for itself, so that the numbers outlive either; take the maximum of theirs.
Nothing is counted beyond a bound, and what a census costs, it rests for many times as long.
"""

import asyncio
import math
import time
from collections.abc import Iterable
from uuid import UUID

import asyncpg
from prometheus_client import Gauge

from common import ids, sql
from common.database import Database
from common.errors import Unavailable
from common.jobs import Priority, Status
from common.logs import Log

QUERIES = sql.load("common", "census.sql")
MOST = 100_000  # of anything is counted: a gauge of so many says "at least"
INTERVAL_SECONDS = 10.0
SHARE = 20  # of one connection's time at most a twentieth
STALE_SECONDS = 60.0  # or three pauses: then the numbers of a census are told no more
DEADLINE_SECONDS = 10.0
NIL = UUID(int=0)
RUNNING = (Status.PROCESSING, Status.CANCELING)

jobs = Gauge("charonia_jobs", "Jobs that have not ended; queued ones also wait for their time.", ["model", "status"])
queue_depth = Gauge("charonia_queue_depth", "Jobs that may run.", ["model", "priority"])
queue_oldest = Gauge("charonia_queue_oldest_seconds", "How long the oldest of them has waited.", ["model", "priority"])
running_oldest = Gauge("charonia_running_oldest_seconds", "How long the oldest attempt has run.", ["model"])
dead_letters = Gauge("charonia_dead_letters", "Jobs that failed and are kept.")
outbox_messages = Gauge("charonia_outbox_messages", "Messages that the broker has not confirmed.")
outbox_oldest = Gauge("charonia_outbox_oldest_seconds", "Age of the oldest of them.")
events_waiting = Gauge("charonia_events_waiting", "Events that no notifier has made deliveries of.")
events_oldest = Gauge("charonia_events_oldest_seconds", "Age of the oldest of them.")
delivery_lag = Gauge("charonia_delivery_lag_seconds", "How long the first delivery of an endpoint's turn has been due.")
endpoints_disabled = Gauge("charonia_endpoints_disabled", "Subscriptions that were disabled because they failed.")
circuits_open = Gauge("charonia_circuits_open", "Endpoints to which at most one attempt goes at a time.")
census_seconds = Gauge("charonia_census_seconds", "Time that the latest census took.")
census_time = Gauge("charonia_census_time_seconds", "Unix time of the latest census.")

BY_MODEL = (jobs, queue_depth, queue_oldest, running_oldest)
REST = (
    dead_letters,
    outbox_messages,
    outbox_oldest,
    events_waiting,
    events_oldest,
    delivery_lag,
    endpoints_disabled,
    circuits_open,
)

log = Log("census")


async def watch(database: Database) -> None:
    """Counts again and again, until cancelled."""
    forgetting: asyncio.TimerHandle | None = None
    while True:
        began = time.monotonic()
        try:
            await count(database)
        except Unavailable as error:
            log.warning("census.waits", error=error)
            pause = rest_from(began)
        else:
            census_seconds.set(time.monotonic() - began)
            census_time.set_to_current_time()
            pause = rest_from(began)
            if forgetting is not None:
                forgetting.cancel()
            forgetting = asyncio.get_running_loop().call_later(max(STALE_SECONDS, 3 * pause), forget)
        await asyncio.sleep(pause)


def rest_from(began: float) -> float:
    """For how many seconds, after a census that began then."""
    return max(INTERVAL_SECONDS, SHARE * (time.monotonic() - began))


def forget() -> None:
    """An old number may be the maximum of all instances' for ever; its age is told by census_time."""
    for gauge in BY_MODEL:
        gauge.clear()
    for gauge in REST:
        gauge.set(math.nan)


async def count(database: Database) -> None:
    """One census. Raises DatabaseUnavailable; then the gauges stay what they were."""
    async with database.transaction(DEADLINE_SECONDS) as connection:
        await connection.execute(QUERIES["plan_plainly"])
        queues = await connection.fetch(QUERIES["count_queues"], list(Priority), MOST)
        running = await connection.fetch(QUERIES["count_running"])
        rest = await connection.fetchrow(QUERIES["count_rest"], MOST, NIL)
    assert rest is not None, "it is one row, whatever there is"
    for gauge in BY_MODEL:
        gauge.clear()  # of models that have left the catalogue; nobody reads in between
    tell_queues(queues)
    tell_running(running)
    tell_rest(rest)


def tell_queues(queues: Iterable[asyncpg.Record]) -> None:
    for record in queues:
        model, priority = record["model"], record["priority"]
        queue_depth.labels(model, priority).set(record["ready"])
        queue_oldest.labels(model, priority).set(age(record["seconds"]))
        jobs.labels(model, Status.QUEUED).inc(record["waiting"])
        for status in RUNNING:
            jobs.labels(model, status)
        running_oldest.labels(model)


def tell_running(running: Iterable[asyncpg.Record]) -> None:
    for record in running:
        for status in RUNNING:
            jobs.labels(record["model"], status).set(record[status])
        running_oldest.labels(record["model"]).set(age(record["seconds"]))


def tell_rest(rest: asyncpg.Record) -> None:
    dead_letters.set(rest["dead_letters"])
    outbox_messages.set(rest["messages"])
    outbox_oldest.set(0.0 if rest["oldest_message"] is None else age(time.time() - ids.made_at(rest["oldest_message"])))
    events_waiting.set(rest["events"])
    events_oldest.set(age(rest["event_seconds"]))
    delivery_lag.set(age(rest["due_seconds"]))
    endpoints_disabled.set(rest["disabled"])
    circuits_open.set(rest["open"])


def age(seconds: float | None) -> float:
    """0 where there is nothing, or where it is from a clock that was set back."""
    return max(0.0, seconds or 0.0)
