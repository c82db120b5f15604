"""Jobs, batches and items of them, as the database has them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from common import ids
from common.job_states import Priority, Status
from common.jobs.job import Job
from common.jobs.new_job import NewJob
from common.rabbitmq.messages import QueuedJob
from common.rabbitmq.wake_ups import job_wake_up
from common.views.batch import BatchRow
from services.gateway.openai.batches.record import BatchRecord, write_record
from services.gateway.openai.batches.store import RequestedBatch
from tests.unit.gateway.parsing import TRACEPARENT

AT = datetime(2026, 11, 28, 12, tzinfo=UTC)


def new_job() -> NewJob:
    job, tenant = ids.new(), ids.new()
    return NewJob(
        id=job,
        tenant_id=tenant,
        model="llm",
        version=None,
        priority=Priority.LOW,
        max_attempts=1,
        run_at=None,
        expires_in=None,
        timeout=1.0,
        initial_delay=1.0,
        max_delay=1.0,
        fallback_model=None,
        traceparent=TRACEPARENT,
        tensors=b"",
        parameters=None,
        metadata=None,
        callback_url=None,
        callback_events=None,
        wake_up=job_wake_up(QueuedJob(tenant, job), Priority.LOW, "llm", TRACEPARENT),
    )


def ended_job(status: Status = Status.SUCCEEDED, **changes: Any) -> Job:
    values: dict[str, Any] = {
        "id": ids.new(),
        "tenant_id": ids.new(),
        "model": "llm",
        "version": "1",
        "priority": Priority.LOW,
        "status": status,
        "attempt": 1,
        "max_attempts": 3,
        "created_at": AT,
        "run_at": AT,
        "started_at": AT,
        "finished_at": AT,
        "expires_at": None,
        "error_code": None,
        "error_message": None,
        "error_retryable": None,
        "inference_ms": 1.0,
        "traceparent": TRACEPARENT,
        "metadata": None,
    }
    return Job(**values | changes)


def requested(record: dict[str, Any] | None = None, items: int = 0, **row: Any) -> RequestedBatch:
    """Return a batch of ten lines, of which `items` are items."""
    values: dict[str, Any] = {"id": ids.new(), "total": 10, "accepted": items, "created_at": AT, "finished_at": None}
    found = BatchRecord(endpoint="/v1/chat/completions", completion_window="24h", file_size=1)
    found = msgspec.structs.replace(found, **record or {})
    return RequestedBatch(
        BatchRow(**{**values, "is_read": items == 10, **row}),
        AT + timedelta(hours=24),
        write_record(found),
        ids.new(),
        items,
    )
