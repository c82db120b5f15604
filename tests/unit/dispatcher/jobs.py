"""Builds claimed jobs."""

from datetime import UTC, datetime

from common import ids
from common.job_states import Priority, Status
from common.jobs.job import JobToRun

NOW = datetime(2026, 11, 21, tzinfo=UTC)
TRACE = f"00-{'a' * 32}-{'b' * 16}-00"


def claimed(status: Status = Status.PROCESSING, fallback_model: str | None = None) -> JobToRun:
    return JobToRun(
        id=ids.new(),
        tenant_id=ids.new(),
        model="echo",
        version=None,
        priority=Priority.NORMAL,
        status=status,
        attempt=1,
        max_attempts=5,
        created_at=NOW,
        run_at=NOW,
        started_at=NOW,
        finished_at=None,
        expires_at=None,
        error_code=None,
        error_message=None,
        error_retryable=None,
        inference_ms=None,
        traceparent=TRACE,
        metadata=None,
        claim=1,
        worker="w",
        timeout=1.0,
        interruptions=0,
        input_bytes=0,
        initial_delay=1.0,
        max_delay=1.0,
        fallback_model=fallback_model,
        tensors=b"",
        parameters=None,
        output_location=None,
        passed=False,
        wants_started=True,
    )
