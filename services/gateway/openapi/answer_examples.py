"""Examples of answers for the documentation. A test checks that each one fits its schema."""

from typing import Any

import msgspec

from services.gateway.http.welcome import WELCOME
from services.gateway.openapi import openai_examples
from services.gateway.openapi.job_examples import (
    BATCH,
    BATCH_PROBLEM,
    FAILED,
    INPUTS,
    JOB,
    JOB_ID,
    LISTED,
    NONE,
    OUTPUTS,
    QUEUED,
    STARTED,
    TRACE,
    UNREAD,
)
from services.gateway.openapi.webhook_examples import (
    ATTEMPT,
    DELIVERY,
    DELIVERY_ID,
    EVENT_ID,
    EVENTS,
    GRACE,
    HEALTH,
    RECOVERY_ID,
    SECRET,
    WEBHOOK,
    WEBHOOK_ID,
)

TENSOR = {"datatype": "FP32", "shape": [-1, -1], "optional": False, "reference": False, "max_bytes": None}
MODEL = {
    "kind": "model",
    "name": "echo",
    "ready": True,
    "reason": None,
    "streaming": False,
    "max_batch_size": 64,
    "versions": [{"version": "1", "ready": True, "reason": None}],
    "inputs": [{"name": "x"} | TENSOR | {"max_bytes": 536_870_912}],
    "outputs": [{"name": "y"} | TENSOR],
    "queue": {"high": 0, "normal": 0, "low": 0},
    "slots": 128,
    "running": 2,
    "paused": False,
    "max_running": 8,
    "max_running_per_tenant": None,
    "reuse_seconds": 3600,
    "loaded_at": "2026-11-20T08:02:11.204Z",
    "residency": {
        "state": "resident",
        "memory": 6_442_450_944,
        "load_seconds": 11.4,
        "place": None,
        "expected_at": None,
        "why": None,
    },
}
KEY = {
    "id": "key_01m0p2rz5zf3cs8fw8dnz7m5rv",
    "name": "scanner",
    "scopes": ["read", "submit"],
    "models": ["echo", "work*"],
    "rate_limit": None,
    "created_at": "2026-11-21T10:18:32.488Z",
    "expires_at": None,
    "last_used_at": "2026-11-21T10:19:02.104Z",
    "made_by": None,
}
FILE = {
    "id": "file_01m0p2tmt8fa7bvqpx6v5ebrxj",
    "size": 1_048_576,
    "sha256": "30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58",
    "content_type": "audio/flac",
    "created_at": "2026-11-21T10:18:32.488Z",
    "expires_at": "2026-11-22T10:18:32.488Z",
}
RETRY = {"max_attempts": 5, "initial_delay": 1.0, "max_delay": None}
STEP = {
    "version": None,
    "for_each": None,
    "parameters": None,
    "priority": None,
    "timeout": 600.0,
    "retry": RETRY,
    "reuse": None,
}
PIPELINE = {
    "name": "twice",
    "version": "2",
    "created_at": "2026-11-21T10:18:32.488Z",
    "definition": {
        "inputs": {"x": {"datatype": "FP32", "shape": [-1, -1], "optional": False}},
        "steps": {
            "first": STEP | {"model": "echo", "inputs": {"x": "$inputs.x"}, "fallback_model": None},
            "rows": STEP
            | {"model": "echo", "inputs": {"x": "$first.y"}, "for_each": "x", "fallback_model": None}
            | {"timeout": 60.0, "retry": RETRY | {"max_attempts": 3}},
        },
        "outputs": {"whole": "$first.y", "by_row": "$rows.y"},
    },
}
WINDOW = {"queue_ms": {"p50": 27, "p95": 310}, "inference_ms": {"p50": 35, "p95": 52}}

# By operation and status; else by schema.
ANSWERS: dict[str, Any] = {
    "submit_job 202": QUEUED | UNREAD,
    "retry_job 202": QUEUED | {"model": "work_small"},
    "cancel_job 202": JOB | STARTED | UNREAD | {"status": "canceling"},
    "list_dead_letters 200": {"items": [FAILED | UNREAD], "next_cursor": None},
    **openai_examples.ANSWERS,
    "Welcome": msgspec.to_builtins(WELCOME),
    "readyz 200": {"status": "ok", "checks": {"database": "ok", "broker": "ok"}},
    "create_webhook 201": WEBHOOK | SECRET,
    "change_webhook 200": WEBHOOK | {"events": ["job.succeeded", "job.failed"]},
    "rotate_webhook 200": WEBHOOK | SECRET | GRACE,
    "rotate_webhook_secret 200": SECRET | GRACE,
    "redeliver 202": DELIVERY
    | {"status": "pending", "next_attempt_at": "2026-11-21T10:18:38.551Z", "finished_at": None},
    "JobView": JOB,
    "JobPage": {"items": [JOB | LISTED], "next_cursor": "P0xV3kF2bJQABkQl3s1YGAGaPFnL2HxNuwLzUUR2dqI"},
    "InputsView": {"id": JOB_ID, "inputs": INPUTS},
    "OutputsView": {"id": JOB_ID, "outputs": OUTPUTS},
    "EventPage": {
        "items": [
            {
                "position": "1.0",
                "type": "job.started",
                "timestamp": "2026-11-21T10:17:52.854Z",
                "sequence": 1001,
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
    "FileView": FILE,
    "PresignedFile": {
        "id": FILE["id"],
        "upload": {
            "method": "PUT",
            "url": "https://bucket.s3.eu-central-1.amazonaws.com/…?X-Amz-Signature=…",
            "headers": {"Content-Type": "audio/flac", "Content-Length": "1048576"},
            "expires_at": "2026-11-21T10:33:32.488Z",
        },
    },
    "FilePage": {"items": [FILE], "next_cursor": None},
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
                | {"seconds": 300.0, "ended": 600, "failed": 3, "hits": 40, "joins": 12}
                | {"ended_per_minute": 120.0, "failed_per_minute": 0.6},
                "last_60_minutes": WINDOW
                | {"seconds": 3600.0, "ended": 3000, "failed": 6, "hits": 210, "joins": 35}
                | {"ended_per_minute": 50.0, "failed_per_minute": 0.1},
            }
        ],
    },
    "HourView": {
        "at": "2026-11-21T10:19:02.104Z",
        "items": [
            {"at": "2026-11-21T10:18:00.000Z", "ended": 120, "failed": 1, "waiting": 14, "running": 4},
            {"at": "2026-11-21T10:19:00.000Z", "ended": 4, "failed": 0, "waiting": 12, "running": 4},
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
                "error": {"code": "invalid_input", "message": "INVALID_ARG: invalid as asked"},
            }
        ],
        "next_cursor": None,
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
    "ModelList": {
        "items": [MODEL],
        "next_cursor": None,
        "memory": {"used": 33_285_996_544, "budget": 42_949_672_960},
    },
    "PipelineView": PIPELINE,
    "PipelineDetails": PIPELINE | {"versions": ["2", "1"]},
    "PipelinePage": {"items": [PIPELINE], "next_cursor": None},
    "CheckedView": {
        "input_tensors": [{"name": "x"} | TENSOR | {"max_bytes": 536_870_912}],
        "output_tensors": [{"name": "whole"} | TENSOR, {"name": "by_row"} | TENSOR],
    },
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
                "jobs": {"succeeded": 1203, "failed": 2, "canceled": 0, "expired": 0, "reused": 148},
                "inference_seconds": 42.105,
                "bytes_in": 48120,
                "bytes_out": 110676,
                "prompt_tokens": 0,
                "completion_tokens": 0,
            }
        ],
        "next_cursor": None,
    },
    "WebhookView": WEBHOOK,
    "WebhookPage": {"items": [WEBHOOK], "next_cursor": None},
    "SecretView": SECRET,
    "TestView": ATTEMPT | {"delivery_id": DELIVERY_ID},
    "WebhookHealth": HEALTH,
    "WebhookHealthPage": {"items": [HEALTH], "next_cursor": None},
    "RecoveryView": {
        "id": RECOVERY_ID,
        "webhook_id": WEBHOOK_ID,
        "since": "2026-01-01T00:00:00.000Z",
        "until": "2026-01-02T00:00:00.000Z",
        "status": "processing",
        "recovered": 0,
        "created_at": "2026-11-21T10:18:40.112Z",
    },
    "DeliveryView": DELIVERY,
    "SentBody": {"delivery_id": DELIVERY_ID, "body": msgspec.json.encode(EVENTS["webhook.test"]).decode()},
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
