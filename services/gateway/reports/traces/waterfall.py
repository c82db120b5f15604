"""Turns what the rows of a job say into spans: children are below their parent, in the order of time. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlsplit

from common.job_states import Status
from common.jobs.job import Job
from common.views.delivery import AttemptRow, DeliveryRow
from common.views.job import format_time
from services.gateway.reports.traces.schemas import Service
from services.gateway.reports.traces.store import Run, TracedJob

MAX_ATTEMPTS = 50  # the latest ones of each delivery
SCHEDULED, BACKOFF = "scheduled", "backing off"
FAILED = (Status.FAILED, Status.EXPIRED)


class Span(NamedTuple):
    """`end` is None while the span goes on. `detail` says how it ended."""

    service: Service
    name: str
    begin: datetime
    end: datetime | None
    depth: int
    failed: bool = False
    detail: str | None = None


def make_spans(
    job: TracedJob, runs: Sequence[Run], deliveries: Sequence[DeliveryRow], attempts: Sequence[AttemptRow]
) -> list[Span]:
    """Return the spans of a job from its attempts, its deliveries and their attempts, all oldest first.

    `runs` may lack the first ones.
    """
    row = job.row
    root = Span("gateway", f"job {row.model}", row.created_at, row.finished_at, 0, row.status in FAILED, row.status)
    accepted = Span("gateway", "accepted", row.created_at, row.created_at, 1)
    groups = [[accepted, *trace_waits_and_runs(job, runs)]]
    groups += [trace_delivery(delivery, attempts) for delivery in deliveries]
    return [root, *sort_children(span for group in groups for span in group)]


def sort_children(spans: Iterator[Span]) -> list[Span]:
    """Return spans of depth 1 in the order of time, each before its own children."""
    families: list[list[Span]] = []
    for span in spans:
        if span.depth == 1:
            families.append([])
        families[-1].append(span)
    return [span for family in sorted(families, key=lambda family: family[0].begin) for span in family]


def trace_waits_and_runs(job: TracedJob, runs: Sequence[Run]) -> Iterator[Span]:
    """Yield the attempts, and the wait before each. A wait after an attempt begins with its backoff."""
    row, since = job.row, job.row.created_at if not runs or runs[0].is_first else None
    delay = SCHEDULED
    for run in runs:
        if run.retried_at is not None:
            since, delay = run.retried_at, SCHEDULED
        if since is not None:
            yield from trace_wait(since, run.started_at, run.due_at, delay)
        yield from trace_run(row, run, latest=run is runs[-1])
        since, delay = run.finished_at, BACKOFF
    if job.retried_at is not None:
        since, delay = job.retried_at, SCHEDULED
    ended_by_run = runs and since is not None and row.finished_at is not None and since >= row.finished_at
    if since is None or ended_by_run:
        return
    if row.scheduled_at is not None:
        yield Span("gateway", delay, since, None, 1, detail=f"until {format_time(row.scheduled_at)}")
    else:
        yield from trace_wait(since, row.finished_at, row.run_at, delay)


def trace_wait(begin: datetime, end: datetime | None, due: datetime, delay: str) -> Iterator[Span]:
    """Yield a wait: the delay until it was `due`, then the queue."""
    if due > begin:
        yield Span("gateway", delay, begin, due if end is None else min(due, end), 1)
        begin = due
    if end is None or begin <= end:
        yield Span("dispatcher", "queued", begin, end, 1)


def trace_run(row: Job, run: Run, *, latest: bool) -> Iterator[Span]:
    """Yield an attempt. The inference begins with it: the rows know how long it took."""
    name = f"attempt {run.attempt}" + (f" × {run.count}" if run.count > 1 else "")
    if run.model != row.model:
        name += f" on {run.model}"
    error = f": {run.error_code}" if run.error_code else ""
    detail = f"{run.status}{error}, {run.worker}"
    yield Span("dispatcher", name, run.started_at, run.finished_at, 1, bool(run.error_code), detail)
    if latest and run.finished_at is not None and row.inference_ms is not None and row.run_state is None:
        end = run.started_at + timedelta(milliseconds=row.inference_ms)
        yield Span("triton", f"infer {run.model}", run.started_at, end, 2)


def trace_delivery(delivery: DeliveryRow, attempts: Sequence[AttemptRow]) -> list[Span]:
    """Return a delivery with its attempts. `attempts` may include those of others."""
    failed = delivery.status == "exhausted"
    name = f"deliver {delivery.event_type}"
    whole = Span("notifier", name, delivery.created_at, delivery.finished_at, 1, failed, delivery.status)
    own = [attempt for attempt in attempts if attempt.delivery_id == delivery.id]
    return [whole, *(trace_attempt(delivery, attempt) for attempt in own[-MAX_ATTEMPTS:])]


def trace_attempt(delivery: DeliveryRow, attempt: AttemptRow) -> Span:
    end = attempt.started_at + timedelta(milliseconds=attempt.duration_ms)
    outcome = [str(attempt.status_code)] if attempt.status_code is not None else []
    outcome += [attempt.error] if attempt.error else []
    name = f"POST {show_origin(delivery.url)}"
    return Span("notifier", name, attempt.started_at, end, 2, attempt.error is not None, ", ".join(outcome))


def show_origin(url: str) -> str:
    """Return where a URL leads, without what may be secret: a login, a path, a query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
