"""Subscriptions and deliveries in the database."""

from typing import Any, NamedTuple
from uuid import UUID

from common import ids
from common.postgres.audit_log import AuditEntry
from common.postgres.database import Database
from services.gateway.webhooks.store import NewWebhook, WebhookRow, WebhookStore
from tests.integration.jobs import submit

MAX_WEBHOOKS = 1000
CALLBACK: dict[str, Any] = {"callback_url": "https://a/b", "callback_events": ["job.succeeded", "job.failed"]}

ENDPOINT = """
INSERT INTO endpoints (id, tenant_id, origin) SELECT $1, tenant_id, 'https://a' FROM events WHERE id = $2
ON CONFLICT (tenant_id, origin) DO UPDATE SET origin = excluded.origin
RETURNING id
"""
DELIVERY = """
INSERT INTO deliveries (id, event_id, event_generation, tenant_id, job_id, webhook_id, url, event_type, endpoint_id,
                        status, traceparent, next_at, finished_at, generation)
SELECT derive_id(id, $2), id, generation, tenant_id, job_id, $1, 'https://a', type, $2, $3, '',
       CASE WHEN $4 THEN now() END, CASE WHEN $5 THEN now() END, CASE WHEN $5 THEN generation ELSE 0 END
FROM events
WHERE id = $6
RETURNING id
"""
EVENT = """
INSERT INTO events (id, tenant_id, job_id, model, type, body, traceparent, callback_url)
VALUES ($1, $2, $3, $4, $5, '{}', '',
        (SELECT callback_url FROM jobs WHERE id = $3 AND callback_events && event_patterns($5)))
"""
# A test event gets no deliveries of its own.
DUE_EVENTS = """
INSERT INTO events (id, tenant_id, job_id, model, type, body, traceparent)
SELECT event_id, tenant_id, jobs.id, model, 'webhook.test', '{}', ''
FROM unnest($2::uuid[]) AS new(event_id), jobs
WHERE jobs.id = $1
"""
DUE = """
WITH new AS (
  SELECT event_id, row_number() OVER (ORDER BY derive_id(event_id, $2)) AS number FROM unnest($3::uuid[]) t(event_id)
), happened AS (
  UPDATE events SET type = 'job.succeeded' FROM new WHERE id = event_id
), scheduled AS (
  UPDATE endpoints SET next_at = now() WHERE id = $2
)
INSERT INTO deliveries (id, event_id, event_generation, tenant_id, job_id, webhook_id, url, event_type, endpoint_id,
                        traceparent, next_at)
SELECT derive_id(event_id, id), event_id, current_generation(), tenant_id, $1, id, url, 'job.succeeded', id, '',
       now() + (number - 1000) * interval '1 ms'
FROM new, webhooks
WHERE id = $2
RETURNING id
"""
DELIVERY_STATE = """
SELECT status, attempt, tries, extract(epoch FROM next_at - now())::double precision, lease_until > now() IS TRUE,
       finished_at IS NOT NULL, url
FROM deliveries
WHERE id = $1
"""
HEALTH = """
SELECT failures, extract(epoch FROM failing_since - now())::double precision,
       extract(epoch FROM open_until - now())::double precision, extract(epoch FROM next_at - now())::double precision
FROM endpoints
WHERE id = $1
"""


def new_webhook(tenant: UUID, **changes: Any) -> NewWebhook:
    values: dict[str, Any] = {
        "id": ids.new(),
        "tenant_id": tenant,
        "url": "https://example.com/a",
        "events": ["job.*", "batch.completed"],
        "models": None,
        "description": "for tests",
        "headers": None,
        "signing": "hmac",
        "secret": b"sealed secret",
        "rate_limit": None,
        "ordered": False,
    }
    return NewWebhook(**values | changes)


def new_entry(webhook: NewWebhook) -> AuditEntry:
    """Return the audit entry of a new subscription."""
    return AuditEntry(webhook.tenant_id, "test", "webhook.created", ids.encode(ids.Kind.WEBHOOK, webhook.id))


async def subscribe(database: Database, tenant: UUID, **changes: Any) -> WebhookRow:
    webhook = new_webhook(tenant, **changes)
    added = await WebhookStore(database).add(webhook, MAX_WEBHOOKS, new_entry(webhook))
    assert added is not None
    return added


async def add_delivery(
    database: Database,
    event: UUID,
    webhook: UUID | None = None,
    status: str = "pending",
    *,
    due: bool | None = None,
    finished: bool | None = None,
) -> UUID:
    """Insert a delivery. By default it is due if pending, and finished otherwise. Return its id."""
    endpoint = webhook
    if endpoint is None:
        record = await database.fetch_one(ENDPOINT, ids.new(), event)
        assert record is not None
        endpoint = record["id"]
    pending = status == "pending"
    due, finished = pending if due is None else due, not pending if finished is None else finished
    (added,) = await database.fetch(DELIVERY, webhook, endpoint, status, due, finished, event)
    delivery: UUID = added["id"]
    return delivery


async def add_event(
    database: Database, tenant: UUID, kind: str = "job.succeeded", *, model: str = "echo", **job: Any
) -> UUID:
    """Insert an event of a new job with the fields `job`. Return its id."""
    event, job_id = ids.new(), await submit(database, tenant, model=model, **job)
    await database.fetch(EVENT, event, tenant, job_id, model, kind)
    return event


async def add_due(database: Database, tenant: UUID, webhook: UUID, count: int = 1) -> list[UUID]:
    """Insert due deliveries of a new job to a subscription. Return their ids, the longest due first."""
    job = await submit(database, tenant)
    events = [ids.new() for _ in range(count)]
    await database.fetch(DUE_EVENTS, job, events)
    return sorted(record["id"] for record in await database.fetch(DUE, job, webhook, events))


class DeliveryState(NamedTuple):
    status: str
    attempt: int
    tries: int
    waits: float | None  # seconds until it is due
    leased: bool
    finished: bool
    url: str


async def look_at(database: Database, delivery: UUID) -> DeliveryState:
    record = await database.fetch_one(DELIVERY_STATE, delivery)
    assert record is not None
    return DeliveryState(*record.values())


class Health(NamedTuple):
    """The health of an endpoint. Times are in seconds from now."""

    failures: int
    failing_since: float | None
    opens: float | None
    next: float | None


async def examine(database: Database, endpoint: UUID) -> Health:
    record = await database.fetch_one(HEALTH, endpoint)
    assert record is not None
    return Health(*record.values())
