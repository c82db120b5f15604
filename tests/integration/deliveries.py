"""Subscriptions and deliveries in the database."""

from typing import Any
from uuid import UUID

from common import ids
from common.database import Database
from services.gateway.webhook_store import NewWebhook, WebhookRow, WebhookStore

ENDPOINT = """
INSERT INTO endpoints (id, tenant_id, origin) SELECT $1, tenant_id, 'https://a' FROM events WHERE id = $2
ON CONFLICT (tenant_id, origin) DO UPDATE SET origin = excluded.origin
RETURNING id
"""
DELIVERY = """
INSERT INTO deliveries (id, event_id, tenant_id, job_id, webhook_id, url, event_type, endpoint_id, status, traceparent,
                        next_at, finished_at)
SELECT $1, id, tenant_id, job_id, $2, 'https://a', type, $3, $4, '', CASE WHEN $5 THEN now() END,
       CASE WHEN $6 THEN now() END
FROM events
WHERE id = $7
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
    }
    return NewWebhook(**values | changes)


async def subscribe(database: Database, tenant: UUID, **changes: Any) -> WebhookRow:
    return await WebhookStore(database).add(new_webhook(tenant, **changes))


async def add_delivery(
    database: Database,
    event: UUID,
    webhook: UUID | None = None,
    status: str = "pending",
    *,
    due: bool | None = None,
    finished: bool | None = None,
) -> UUID:
    """Due if pending and finished if not, unless said otherwise; returns its id."""
    endpoint = webhook
    if endpoint is None:
        record = await database.fetch_one(ENDPOINT, ids.new(), event)
        assert record is not None
        endpoint = record["id"]
    delivery, pending = ids.new(), status == "pending"
    due, finished = pending if due is None else due, not pending if finished is None else finished
    await database.fetch(DELIVERY, delivery, webhook, endpoint, status, due, finished, event)
    return delivery
