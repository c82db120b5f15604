"""Examples of jobs and batches for the documentation. A test checks that each one fits its schema."""

from datetime import UTC, datetime, timedelta
from typing import Any

from common.views.job import format_time

JOB_ID = "job_01m7ysshxnfbevq05b7h55g94z"
BATCH_ID = "batch_01m7ystfs0e0x8s13t679vdnpf"

SUBMITTED = datetime(2026, 11, 21, 10, 17, 52, 827_000, tzinfo=UTC)
INPUTS = [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1.0, 2.0, 3.0]}]
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
UNREAD = {"webhook_status": None}
LISTED = UNREAD | {"outputs": None, "outputs_omitted": "in_lists", "outputs_url": f"/v1/jobs/{JOB_ID}/outputs"}
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
    "version": None,
    "metrics": {"queue_ms": 27, "inference_ms": None, "total_ms": 62},
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
    "canceled_at": None,
    "urls": {
        "self": f"/v1/batches/{BATCH_ID}",
        "jobs": f"/v1/jobs?batch={BATCH_ID}",
        "results": f"/v1/batches/{BATCH_ID}/results",
    },
}
BATCH_PROBLEM = {
    "type": "urn:charonia:problem:invalid_request",
    "detail": "/inputs: input 'x' (FP32 [-1, -1]) is missing",
    "errors": [{"pointer": "/inputs", "detail": "input 'x' (FP32 [-1, -1]) is missing"}],
}
BATCH_RESULTS = [
    {"index": 0, "custom_id": None, "job": JOB | UNREAD | {"metadata": {}}, "error": None},
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
