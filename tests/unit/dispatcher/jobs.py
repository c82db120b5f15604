"""Builds claimed and running jobs."""

import asyncio
from datetime import UTC, datetime

from common import ids
from common.job_states import Priority, Status
from common.jobs.job import JobToRun
from services.dispatcher.attempts.running_job import RunningJob
from services.dispatcher.attempts.slot import Slot
from services.dispatcher.models.served_model import ServedModel

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


def make_running(job: JobToRun, model: ServedModel | None = None, *, is_probe: bool = False) -> RunningJob:
    """Return a job that holds a slot of a model, and whose task has not started."""
    model = model or ServedModel(job.model, asyncio.Event())
    return RunningJob(job, model, Slot(model, is_probe=is_probe))
