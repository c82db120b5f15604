"""Spans that begin in one process and end in another: the wait in the queue, and the run of a lost worker."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from opentelemetry.context import Context
from opentelemetry.trace import Link, get_current_span

from common import ids
from common.jobs.job import Job
from common.telemetry import tracing

_OUTCOME = "charonia.outcome"
_EPOCH = datetime.fromtimestamp(0, UTC)


def job_attributes(row: Job) -> dict[str, str | int]:
    """Return the attributes of every span of a job."""
    return {
        "charonia.job_id": ids.encode(ids.Kind.JOB, row.id),
        "charonia.tenant_id": ids.encode(ids.Kind.TENANT, row.tenant_id),
        "charonia.model": row.model,
        "charonia.priority": row.priority,
        "charonia.attempt": row.attempt,
    }


def queued_since(row: Job) -> datetime:
    """Return the time since which the job can be claimed."""
    return max(row.created_at, row.run_at)


def record_queue_time(row: Job, context: Context) -> None:
    """Record the span of the wait of a job that was just claimed. All times are of the database's clock."""
    assert row.started_at is not None, "a claimed job has started"
    if tracing.is_off():
        return
    begin = queued_since(row)
    span = tracing.tracer.start_span(
        f"queued jobs.{row.model}", context, attributes=job_attributes(row), start_time=_to_nanoseconds(begin)
    )
    span.end(_to_nanoseconds(max(begin, row.started_at)))


@contextmanager
def start_span_at(begin: datetime, name: str, row: Job, links: Sequence[Link] = ()) -> Iterator[str]:
    """Start a span in the job's trace at `begin`, and end it with the block. Yield its traceparent."""
    span = tracing.tracer.start_span(
        f"{name} jobs.{row.model}",
        tracing.to_context(row.traceparent),
        attributes=job_attributes(row),
        links=links,
        start_time=min(_to_nanoseconds(begin), time.time_ns()),  # a scheduled job may end before its time
    )
    with tracing.use_span(span):
        yield tracing.to_traceparent(span)


def set_outcome(outcome: str) -> None:
    """Set the job's outcome in the current span."""
    get_current_span().set_attribute(_OUTCOME, outcome)


def _to_nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000
