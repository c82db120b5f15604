"""Examples of answers for the documentation. A test checks that each one fits its schema."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from common.views.job import format_time
from services.gateway.http.welcome import WELCOME
from services.gateway.openapi.examples import HOOK

JOB_ID, WEBHOOK_ID = "job_01m7ysshxnfbevq05b7h55g94z", "whk_01m7ystrn7eevsede7n1a4q217"
DELIVERY_ID, RECOVERY_ID = "dlv_01m7ystyjreeattn4s7m92kk5s", "rec_01m7ysv7pnetqtwvzp4kk6hgz5"
EVENT_ID = "evt_01m7ystyt3fmq9pqw9y6x8q317"
BATCH_ID = "bat_01m7ystfs0e0x8s13t679vdnpf"

SUBMITTED = datetime(2026, 11, 21, 10, 17, 52, 827_000, tzinfo=UTC)
OUTPUTS = [{"name": "y", "datatype": "FP32", "shape": [1, 3], "data": [2.0, 4.0, 6.0]}]
JOB = {
    "id": JOB_ID,
    "status": "succeeded",
    "model": "echo",
    "version": "1",
    "priority": "normal",
    "attempt": 1,
    "max_attempts": 5,
    "created_at": "2026-11-21T10:17:52.827Z",
    "run_at": "2026-11-21T10:17:52.827Z",
    "started_at": "2026-11-21T10:17:52.854Z",
    "finished_at": "2026-11-21T10:17:52.889Z",
    "expires_at": None,
    "outputs": OUTPUTS,
    "error": None,
    "queue_position": None,
    "waiting_for": None,
    "webhook_status": "none",
    "metadata": {"order": 4711},
    "trace_id": "fefb2bf2001d3f315770f70c4bd9d362",
    "metrics": {"queue_ms": 27, "inference_ms": 35, "total_ms": 62},
    "urls": {
        "self": f"/v1/jobs/{JOB_ID}",
        "cancel": f"/v1/jobs/{JOB_ID}/cancel",
        "events": f"/v1/jobs/{JOB_ID}/events",
        "deliveries": f"/v1/jobs/{JOB_ID}/deliveries",
        "trace": None,
    },
}
LISTED = {"outputs": None, "outputs_omitted": "in_lists", "outputs_url": f"/v1/jobs/{JOB_ID}/outputs"}
STARTED = {
    "version": None,
    "finished_at": None,
    "outputs": None,
    "metrics": {"queue_ms": 27, "inference_ms": None, "total_ms": None},
}
QUEUED = (
    JOB
    | STARTED
    | {
        "status": "queued",
        "attempt": 0,
        "started_at": None,
        "metrics": {"queue_ms": None, "inference_ms": None, "total_ms": None},
    }
)
FAILED = JOB | {
    "status": "failed",
    "model": "faulty",
    "outputs": None,
    "error": {"code": "invalid_input", "message": "INVALID_ARG: invalid as asked", "retryable": False},
}
EXPIRED = {
    "status": "expired",
    "finished_at": "2026-11-21T10:17:52.889Z",
    "expires_at": "2026-11-21T10:17:52.880Z",
    "error": {
        "code": "expired",
        "message": "the job did not start before its expires_at",
        "retryable": False,
    },
}
NONE = dict.fromkeys(("queued", "processing", "canceling", "succeeded", "failed", "canceled", "expired"), 0)
BATCH = {
    "id": BATCH_ID,
    "status": "completed",
    "total": 2,
    "accepted": 1,
    "counts": NONE | {"succeeded": 1},
    "created_at": "2026-11-21T10:18:23.398Z",
    "finished_at": "2026-11-21T10:18:23.415Z",
    "urls": {
        "self": f"/v1/batches/{BATCH_ID}",
        "jobs": f"/v1/jobs?batch={BATCH_ID}",
        "results": f"/v1/batches/{BATCH_ID}/results",
    },
}
MODEL = {
    "name": "echo",
    "ready": True,
    "reason": None,
    "streaming": False,
    "max_batch_size": 64,
    "versions": [{"version": "1", "ready": True, "reason": None}],
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, -1], "optional": False}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, -1], "optional": False}],
    "queue": {"high": 0, "normal": 0, "low": 0},
    "slots": 128,
    "running": 2,
    "paused": False,
    "max_running": 8,
    "max_running_per_tenant": None,
}
WEBHOOK = {
    "id": WEBHOOK_ID,
    "url": HOOK,
    "events": ["job.failed"],
    "models": ["echo"],
    "description": None,
    "headers": None,
    "signing": "hmac",
    "rate_limit": 50,
    "ordered": False,
    "status": "enabled",
    "disabled_at": None,
    "disabled_reason": None,
    "created_at": "2026-11-21T10:18:32.488Z",
}
SECRET = {"secret": "whsec_3Svi35d86cdvyaJcxZDaXXzeRFC+69hnToAVd8mQzuQ="}
KEY = {
    "id": "key_01m0p2rz5zf3cs8fw8dnz7m5rv",
    "name": "scanner",
    "scopes": ["read", "submit"],
    "models": ["echo", "work*"],
    "rate_limit": None,
    "created_at": "2026-11-21T10:18:32.488Z",
    "expires_at": None,
    "last_used_at": "2026-11-21T10:19:02.104Z",
}
WINDOW = {"queue_ms": {"p50": 27, "p95": 310}, "inference_ms": {"p50": 35, "p95": 52}}
GRACE = {"old_secret_until": "2026-11-21T11:18:50.942Z"}
ATTEMPT = {
    "number": 1,
    "started_at": "2026-11-21T10:18:38.627Z",
    "latency_ms": 7,
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

# The bodies of webhooks, by type of event.
STARTED_EVENT = {"type": "job.started", "timestamp": "2026-11-21T10:17:52.854Z", "sequence": 1}
ENDED_EVENT = {"timestamp": "2026-11-21T10:17:52.889Z", "sequence": 2}
SENT = JOB | {"webhook_status": "pending"}
ENDED = {
    "job.succeeded": SENT,
    "job.failed": SENT | FAILED | {"webhook_status": "pending"},
    "job.canceled": SENT | {"status": "canceled", "outputs": None},
    "job.expired": SENT | QUEUED | EXPIRED | {"webhook_status": "pending"},
}
EVENTS: dict[str, Any] = {
    "job.started": STARTED_EVENT | {"data": SENT | STARTED | {"status": "processing"}},
    **{event_type: {"type": event_type} | ENDED_EVENT | {"data": job} for event_type, job in ENDED.items()},
    "batch.completed": {"type": "batch.completed", "timestamp": BATCH["finished_at"], "data": BATCH},
    "webhook.test": {
        "type": "webhook.test",
        "timestamp": "2026-11-21T10:18:50.942Z",
        "data": {"webhook_id": WEBHOOK_ID, "description": None},
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
        "data": DELIVERY
        | {"status": "exhausted", "attempts": [ATTEMPT | {"status_code": 500, "error": "http_status"}]},
    },
}

BATCH_PROBLEM = {
    "type": "urn:charonia:problem:invalid_request",
    "detail": "/inputs: input 'x' (FP32 [-1, -1]) is missing",
    "errors": [{"pointer": "/inputs", "detail": "input 'x' (FP32 [-1, -1]) is missing"}],
}
BATCH_RESULTS = [
    {"index": 0, "custom_id": None, "job": JOB | {"metadata": {}}, "error": None},
    {"index": 1, "custom_id": None, "job": None, "error": BATCH_PROBLEM},
]


def span(at: float, took: float, service: str, name: str, depth: int, detail: str | None = None) -> dict[str, Any]:
    """Return a span of JOB."""
    begin, end = (SUBMITTED + timedelta(milliseconds=offset) for offset in (at, at + took))
    times = {"at_ms": at, "took_ms": took, "started_at": format_time(begin), "finished_at": format_time(end)}
    return {"name": name, "service": service, "depth": depth, **times, "failed": False, "detail": detail}


TRACE = {
    "job_id": JOB_ID,
    "trace_id": JOB["trace_id"],
    "status": "succeeded",
    "spans": [
        span(0.0, 62.3, "gateway", "job echo", 0, "succeeded"),
        span(0.0, 0.0, "gateway", "accepted", 1),
        span(0.0, 26.8, "dispatcher", "queued", 1),
        span(26.8, 35.5, "dispatcher", "attempt 1", 1, "succeeded, worker-5b1f0c9e7a42"),
        span(26.8, 34.9, "triton", "infer echo", 2),
        span(62.3, 12.4, "notifier", "deliver job.succeeded", 1, "succeeded"),
        span(66.1, 7.2, "notifier", "POST https://example.com", 2, "204"),
    ],
    "truncated": False,
}

# By operation and status; else by schema.
ANSWERS: dict[str, Any] = {
    "submit_job 202": QUEUED,
    "retry_job 202": QUEUED | {"model": "work_small"},
    "cancel_job 202": JOB | STARTED | {"status": "canceling"},
    "list_dead_letters 200": {"items": [FAILED], "next_cursor": None},
    "Welcome": msgspec.to_builtins(WELCOME),
    "create_webhook 201": WEBHOOK | SECRET,
    "change_webhook 200": WEBHOOK | {"events": ["job.succeeded", "job.failed"]},
    "rotate_webhook 200": WEBHOOK | SECRET | GRACE,
    "rotate_webhook_secret 200": SECRET | GRACE,
    "redeliver 202": DELIVERY
    | {"status": "pending", "next_attempt_at": "2026-11-21T10:18:38.551Z", "finished_at": None},
    "JobView": JOB,
    "JobPage": {"items": [JOB | LISTED], "next_cursor": "P0xV3kF2bJQABkQl3s1YGAGaPFnL2HxNuwLzUUR2dqI"},
    "OutputsView": {"id": JOB_ID, "outputs": OUTPUTS},
    "EventPage": {
        "items": [
            {
                "id": "1.0",
                "type": "job.started",
                "timestamp": "2026-11-21T10:17:52.854Z",
                "sequence": 1,
                "data": {"id": JOB_ID, "status": "processing", "attempt": 1, "model": "echo"},
            }
        ],
        "next_cursor": None,
    },
    "FeedPageView": {
        "items": [{"id": EVENT_ID} | EVENTS["job.succeeded"]],
        "next_after": f"{EVENT_ID}.8123",
        "has_more": False,
    },
    "create_key 201": KEY | {"last_used_at": None, "key": "ch_BfDwyWTSQ7pTbJvhgWCh05Z8dTHmaHBD1yfaHgR3RzQ"},
    "KeyView": KEY,
    "KeyPage": {"items": [KEY], "next_cursor": None},
    "StatsView": {
        "at": "2026-11-21T10:19:02.104Z",
        "items": [
            {
                "model": "echo",
                "priority": "normal",
                "waiting": 12,
                "scheduled": 2,
                "running": 4,
                "oldest_waiting_at": "2026-11-21T10:19:01.210Z",
                "last_5_minutes": WINDOW
                | {"seconds": 300.0, "ended": 600, "failed": 3}
                | {"ended_per_minute": 120.0, "failed_per_minute": 0.6},
                "last_60_minutes": WINDOW
                | {"seconds": 3600.0, "ended": 3000, "failed": 6}
                | {"ended_per_minute": 50.0, "failed_per_minute": 0.1},
            }
        ],
    },
    "TraceView": TRACE,
    "AttemptList": {
        "items": [
            {
                "attempt": 1,
                "count": 1,
                "status": "failed",
                "model": "faulty",
                "worker": "worker-5b1f0c9e7a42",
                "started_at": "2026-11-21T10:18:14.225Z",
                "finished_at": "2026-11-21T10:18:14.265Z",
                "duration_ms": 40,
                "error_code": "invalid_input",
                "error_message": "INVALID_ARG: invalid as asked",
            }
        ]
    },
    "Replayed": {"replayed": [JOB_ID], "skipped": [], "remaining": False},
    "BatchView": BATCH,
    "BatchAccepted": BATCH
    | {
        "status": "processing",
        "counts": NONE | {"queued": 1},
        "finished_at": None,
        "errors": [{"index": 1, "custom_id": None} | BATCH_PROBLEM],
    },
    "ModelDetails": MODEL
    | {
        "recent": {"jobs": 200, "queue_ms": {"p50": 27, "p95": 310}, "inference_ms": {"p50": 35, "p95": 52}},
        "triton": {"queue_ms": 15.2, "compute_ms": 16.8},
    },
    "ModelList": {"items": [MODEL], "next_cursor": None},
    "AuditPage": {
        "items": [
            {
                "id": "aud_01m0p2tmt8fa7bvqpx6v5ebrxj",
                "at": "2026-11-21T10:18:32.488Z",
                "actor": "key_01m0p2rz5zf3cs8fw8dnz7m5rv",
                "action": "webhook.updated",
                "target": WEBHOOK_ID,
                "changes": {"events": ["job.failed"], "rate_limit": 50},
            }
        ],
        "next_cursor": None,
    },
    "UsagePage": {
        "items": [
            {
                "day": "2026-11-21",
                "model": "echo",
                "jobs": {"succeeded": 1203, "failed": 2, "canceled": 0, "expired": 0},
                "inference_seconds": 42.105,
                "bytes_in": 48120,
                "bytes_out": 110676,
            }
        ],
        "next_cursor": None,
    },
    "WebhookView": WEBHOOK,
    "WebhookPage": {"items": [WEBHOOK], "next_cursor": None},
    "SecretView": SECRET,
    "TestView": ATTEMPT | {"delivery_id": DELIVERY_ID},
    "RecoveryView": {
        "id": RECOVERY_ID,
        "webhook_id": WEBHOOK_ID,
        "since": "2026-01-01T00:00:00.000Z",
        "until": "2026-01-02T00:00:00.000Z",
        "status": "running",
        "recovered": 0,
    },
    "DeliveryView": DELIVERY,
    "DeliveryPage": {"items": [DELIVERY], "next_cursor": None},
    "InferAnswer": {"model_name": "echo", "model_version": "1", "outputs": OUTPUTS},
    "ModelMetadata": {
        "name": "echo",
        "versions": ["1"],
        "platform": "unknown",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, -1]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, -1]}],
    },
    "ModelConfig": {
        "name": "echo",
        "platform": "unknown",
        "backend": "unknown",
        "max_batch_size": 64,
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1], "optional": False}],
        "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [-1]}],
        "model_transaction_policy": {"decoupled": False},
    },
    "ServerMetadata": {
        "name": "charonia",
        "version": "0.1.0",
        "extensions": ["binary_tensor_data", "model_configuration", "parameters"],
    },
}
