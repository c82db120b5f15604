"""Writes tenants with subscriptions, events and deliveries directly into the database, for tests and benchmarks."""

import itertools
import re
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple
from uuid import UUID

from common import ids
from common.postgres import sql
from common.postgres.database import Database, to_columns
from common.telemetry import tracing

QUERIES = sql.load("tests.support.database", "seed.sql")
BATCH = 1000
NUMBER = re.compile(rb'"number": *(\d+)')  # in the body of a webhook, which it tells from others
# A small job's webhook, as the dispatcher renders it; `number` identifies it.
BODY = (
    '{"type":"job.succeeded","timestamp":"2026-11-21T02:53:41.250Z","sequence":1999,"data":{"id":"%s","status":"succeeded",'
    '"model":"echo","version":"1","priority":"normal","attempt":1,"max_attempts":3,'
    '"created_at":"2026-11-21T02:53:41.201Z","run_at":"2026-11-21T02:53:41.201Z",'
    '"started_at":"2026-11-21T02:53:41.212Z","finished_at":"2026-11-21T02:53:41.250Z","expires_at":null,'
    '"outputs":[{"name":"y","datatype":"FP32","shape":[1,3],"data":[2.0,4.0,6.0]}],"error":null,"queue_position":null,'
    '"webhook_status":null,"metadata":{"number":%d},"trace_id":"7aa6cafb3342f14d755650cfccc5b372",'
    '"metrics":{"queue_ms":11,"inference_ms":27,"total_ms":49},"urls":{"self":"/v1/jobs/x","cancel":"/v1/jobs/x/cancel",'
    '"events":"/v1/jobs/x/events","deliveries":"/v1/jobs/x/deliveries","trace":null}}}'
)

numbers = itertools.count(1)


class Subscriber(NamedTuple):
    tenant_id: UUID
    webhook_id: UUID
    url: str


class Seeded(NamedTuple):
    """An event, and the number in its body."""

    id: UUID
    number: int
    traceparent: str


async def add_subscribers(database: Database, urls: Sequence[str], secret: bytes) -> list[Subscriber]:
    """Add a tenant with one subscription for each URL; all have one secret, given encrypted."""
    added = [Subscriber(ids.new(), ids.new(), url) for url in urls]
    for first in range(0, len(added), BATCH):
        await database.fetch(QUERIES["add_subscribers"], *to_columns(added[first : first + BATCH], 3), secret)
    return added


async def add_events(database: Database, tenants: Sequence[UUID]) -> list[Seeded]:
    """Add an event of a succeeded job for each of these tenants, in this order; publish no messages."""
    added = []
    for first in range(0, len(tenants), BATCH):
        rows = [_make_event(tenant_id) for tenant_id in tenants[first : first + BATCH]]
        await database.fetch(QUERIES["add_events"], *to_columns([row[1:] for row in rows], 5))
        added += [Seeded(row[1], row[0], row[5]) for row in rows]
    return added


async def add_pending(database: Database, subscriber: Subscriber, count: int, delay: float = 0.0) -> dict[UUID, int]:
    """Add deliveries, due after a delay in seconds; return the numbers of their events by id, oldest first."""
    added: dict[UUID, int] = {}
    for first in range(0, count, BATCH):
        events = await add_events(database, [subscriber.tenant_id] * min(BATCH, count - first))
        numbers_by_event = {event.id: event.number for event in events}
        found = await database.fetch(QUERIES["add_pending"], subscriber.webhook_id, list(numbers_by_event), delay)
        added |= {record["id"]: numbers_by_event[record["event_id"]] for record in sorted(found, key=itemgetter("id"))}
    return added


def _make_event(tenant_id: UUID) -> tuple[int, UUID, UUID, UUID, bytes, str]:
    number, job_id = next(numbers), ids.new()
    body = BODY % (ids.encode(ids.Kind.JOB, job_id), number)
    return number, ids.new(), job_id, tenant_id, body.encode(), tracing.new_traceparent()
