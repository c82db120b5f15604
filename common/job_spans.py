"""Spans of a job's life that no one place sees begin and end: how long it waited, or ran for a lost worker."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from opentelemetry.context import Context
from opentelemetry.trace import Link, get_current_span

from common import ids, tracing
from common.job_view import JobRow

OUTCOME = "charonia.outcome"
EPOCH = datetime.fromtimestamp(0, UTC)


def describe(row: JobRow) -> dict[str, str | int]:
    return {
        "charonia.job_id": ids.show(ids.Kind.JOB, row.id),
        "charonia.tenant_id": ids.show(ids.Kind.TENANT, row.tenant_id),
        "charonia.model": row.model,
        "charonia.priority": row.priority,
        "charonia.attempt": row.attempt,
    }


def due(row: JobRow) -> datetime:
    """When the job's present wait for a worker began."""
    return max(row.created_at, row.run_at)


def record_wait(row: JobRow, context: Context) -> None:
    """The time that a job just claimed was queued for; by the database's clock, as all times here."""
    assert row.started_at is not None, "a claimed job has started"
    if tracing.is_off():
        return
    begin = due(row)
    span = tracing.tracer.start_span(
        f"queued jobs.{row.model}", context, attributes=describe(row), start_time=count_nanoseconds(begin)
    )
    span.end(count_nanoseconds(max(begin, row.started_at)))


@contextmanager
def since(name: str, row: JobRow, begin: datetime, links: Sequence[Link] = ()) -> Iterator[str]:
    """A span in the job's trace, from `begin` to the end of the block, which makes an end of it; its traceparent."""
    span = tracing.tracer.start_span(
        f"{name} jobs.{row.model}",
        tracing.context_of(row.traceparent),
        attributes=describe(row),
        links=links,
        start_time=min(count_nanoseconds(begin), time.time_ns()),  # a scheduled job may end before it is due
    )
    with tracing.hold(span):
        yield tracing.show(span)


def note_outcome(outcome: str) -> None:
    """What became of the job, in the current span."""
    get_current_span().set_attribute(OUTCOME, outcome)


def count_nanoseconds(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1) * 1000
