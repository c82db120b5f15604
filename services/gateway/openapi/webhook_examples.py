"""Examples of webhooks and their payloads for the documentation. A test checks that each one fits its schema."""

from typing import Any

from services.gateway.openapi.examples import HOOK
from services.gateway.openapi.job_examples import BATCH, EXPIRED, FAILED, JOB, JOB_ID, QUEUED, STARTED, UNREAD

WEBHOOK_ID = "whk_01m7ystrn7eevsede7n1a4q217"
DELIVERY_ID, RECOVERY_ID = "dlv_01m7ystyjreeattn4s7m92kk5s", "rec_01m7ysv7pnetqtwvzp4kk6hgz5"
EVENT_ID = "evt_01m7ystyt3fmq9pqw9y6x8q317"

WEBHOOK = {
    "id": WEBHOOK_ID,
    "url": HOOK,
    "events": ["job.failed"],
    "models": ["echo"],
    "description": None,
    "headers": None,
    "signing": "hmac",
    "format": "charonia",
    "rate_limit": 50,
    "ordered": False,
    "status": "enabled",
    "disabled_at": None,
    "disabled_reason": None,
    "created_at": "2026-11-21T10:18:32.488Z",
}
SECRET = {"secret": "whsec_3Svi35d86cdvyaJcxZDaXXzeRFC+69hnToAVd8mQzuQ="}
GRACE = {"old_secret_until": "2026-11-21T11:18:50.942Z"}
HTTP_STATUS = {"code": "http_status", "message": "the receiver answered 500"}
ATTEMPT = {
    "number": 1,
    "started_at": "2026-11-21T10:18:38.627Z",
    "duration_ms": 7,
    "status_code": 204,
    "error": None,
    "response": "",
}
DELIVERY = {
    "id": DELIVERY_ID,
    "event_id": EVENT_ID,
    "event_type": "job.succeeded",
    "job_id": JOB_ID,
    "webhook_id": WEBHOOK_ID,
    "url": HOOK,
    "status": "succeeded",
    "created_at": "2026-11-21T10:18:38.551Z",
    "next_attempt_at": None,
    "finished_at": "2026-11-21T10:18:38.652Z",
    "attempts": [ATTEMPT],
}
HEALTH = {
    "webhook_id": WEBHOOK_ID,
    "circuit": "closed",
    "failing_since": None,
    "pending": 2,
    "oldest_due_at": None,
    "counted_since": None,
    "last_60_minutes": {
        "succeeded": 41,
        "failed": 0,
        "failed_attempts": 1,
        "success_rate": 0.9762,
        "duration_ms": {"p50": 38, "p95": 112},
    },
    "last_24_hours": {
        "succeeded": 812,
        "failed": 3,
        "failed_attempts": 42,
        "success_rate": 0.9508,
        "duration_ms": {"p50": 40, "p95": 131},
    },
}

# The bodies of webhooks, by type of event.
STARTED_EVENT = {"type": "job.started", "timestamp": "2026-11-21T10:17:52.854Z", "sequence": 1001}
ENDED_EVENT = {"timestamp": "2026-11-21T10:17:52.889Z", "sequence": 1999}
SENT = JOB | UNREAD
ENDED = {
    "job.succeeded": SENT,
    "job.failed": SENT | FAILED | UNREAD,
    "job.canceled": SENT | {"status": "canceled", "outputs": None},
    "job.expired": SENT | QUEUED | EXPIRED | UNREAD,
}
EVENTS: dict[str, Any] = {
    "job.started": STARTED_EVENT | {"data": SENT | STARTED | {"status": "processing"}},
    **{event_type: {"type": event_type} | ENDED_EVENT | {"data": job} for event_type, job in ENDED.items()},
    "batch.completed": {"type": "batch.completed", "timestamp": BATCH["finished_at"], "data": BATCH},
    "openai": {
        "object": "event",
        "id": EVENT_ID,
        "type": "response.completed",
        "created_at": 1795256272,
        "data": {"id": JOB_ID.replace("job_", "resp_")},
    },
    "webhook.test": {
        "type": "webhook.test",
        "timestamp": "2026-11-21T10:18:50.942Z",
        "data": {"id": WEBHOOK_ID, "description": None},
    },
    "webhook.disabled": {
        "type": "webhook.disabled",
        "timestamp": "2026-11-21T10:18:50.942Z",
        "data": {
            "id": WEBHOOK_ID,
            "url": HOOK,
            "description": None,
            "status": "disabled",
            "disabled_at": "2026-11-21T10:18:50.942Z",
            "disabled_reason": "gone",
        },
    },
    "delivery.exhausted": {
        "type": "delivery.exhausted",
        "timestamp": DELIVERY["finished_at"],
        "data": DELIVERY | {"status": "exhausted", "attempts": [ATTEMPT | {"status_code": 500, "error": HTTP_STATUS}]},
    },
}
