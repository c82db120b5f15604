"""HTTP route of a job's trace."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from litestar import Request, Response, Router, get
from litestar.di import NamedDependency, Provide
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import SkipValidation

from common import ids
from common.jobs.job import Job
from common.telemetry import tracing
from common.views.job import format_optional_time, format_time
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.negotiation import PLAIN_TEXT, prefers
from services.gateway.http.parameters import parse_id
from services.gateway.http.problems import WITH_ID, document, not_found
from services.gateway.reports.traces.schemas import SpanView, TraceView
from services.gateway.reports.traces.store import TraceStore
from services.gateway.reports.traces.text import write_text
from services.gateway.reports.traces.waterfall import MAX_ATTEMPTS, Span, make_spans
from services.gateway.webhooks.deliveries.store import DeliveryStore

MAX_RUNS = MAX_DELIVERIES = 100


@dataclass(frozen=True)
class TraceServices:
    store: TraceStore
    deliveries: DeliveryStore


@get(
    "/jobs/{job_id:str}/trace",
    summary="Get the trace of a job",
    operation_id="get_trace",
    **needs(Scope.READ),
    responses={
        200: ResponseSpec(TraceView, description="The trace, as JSON or as text", generate_examples=False),
        **document(*WITH_ID),
    },
)
async def get_trace(
    request: Request[Key, Any, Any], job_id: str, services: NamedDependency[SkipValidation[TraceServices]]
) -> Response[Any]:
    """Return when the job was accepted, each wait, each attempt and each delivery, as of now.

    It comes from the database, so it is there for every job, whatever is sampled for `trace_id`. It has the latest 100
    attempts and the latest 100 deliveries. `Accept: text/plain` selects text in columns, unless it prefers JSON.
    """
    parsed, tenant_id = parse_id(ids.Kind.JOB, job_id), request.user.tenant_id
    job = await services.store.find_job(parsed, tenant_id)
    if job is None:
        raise not_found("job")
    tracing.add_link(job.row.traceparent)
    runs = await services.store.list_runs(parsed, tenant_id, MAX_RUNS + 1)
    deliveries, attempts = await services.deliveries.list_rows_by_job(tenant_id, parsed, MAX_DELIVERIES + 1)
    latest_runs, latest_deliveries = runs[:MAX_RUNS][::-1], deliveries[:MAX_DELIVERIES][::-1]
    truncated = len(runs) > MAX_RUNS or len(deliveries) > MAX_DELIVERIES
    truncated = truncated or any(attempt.number > MAX_ATTEMPTS for attempt in attempts)
    trace = view_trace(job.row, make_spans(job, latest_runs, latest_deliveries, attempts), truncated=truncated)
    if prefers(",".join(request.headers.getall("accept", [])), PLAIN_TEXT):
        return Response(write_text(trace), media_type=PLAIN_TEXT)
    return Response(trace)


def view_trace(row: Job, spans: Sequence[Span], *, truncated: bool) -> TraceView:
    return TraceView(
        job_id=ids.encode(ids.Kind.JOB, row.id),
        trace_id=tracing.trace_id(row.traceparent),
        status=row.status,
        spans=[view_span(span, row.created_at) for span in spans],
        truncated=truncated,
    )


def view_span(span: Span, origin: datetime) -> SpanView:
    return SpanView(
        name=span.name,
        service=span.service,
        depth=span.depth,
        at_ms=measure(origin, span.begin),
        took_ms=None if span.end is None else max(0.0, measure(span.begin, span.end)),
        started_at=format_time(span.begin),
        finished_at=format_optional_time(span.end),
        failed=span.failed,
        detail=span.detail,
    )


def measure(begin: datetime, end: datetime) -> float:
    """Return milliseconds to a tenth."""
    return round((end - begin).total_seconds() * 1000, 1)


def make_router(services: TraceServices) -> Router:
    return Router(
        "/",
        route_handlers=[get_trace],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        tags=["Jobs"],
    )
