"""A job that waits."""

from datetime import UTC, datetime

from common import ids
from common.job_states import Priority, Status
from common.jobs.job import Job

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROW = Job(
    id=ids.new(),
    tenant_id=ids.new(),
    model="echo",
    version="1",
    priority=Priority.NORMAL,
    status=Status.QUEUED,
    attempt=0,
    max_attempts=5,
    created_at=NOW,
    run_at=NOW,
    started_at=None,
    finished_at=None,
    expires_at=None,
    error_code=None,
    error_message=None,
    error_retryable=None,
    inference_ms=None,
    traceparent="",
    metadata=None,
)
