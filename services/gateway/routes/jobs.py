"""Jobs."""

from http import HTTPStatus
from typing import Annotated, Any

from litestar import Request, Response, Router, get, post
from litestar.params import Parameter
from opentelemetry.trace import get_current_span

from common import ids, tracing
from common.job_view import JobView, Links, view_job
from common.logs import Log
from services.gateway import metrics
from services.gateway.errors import FINDING, SENDING, document, not_found
from services.gateway.schemas import SubmitJob
from services.gateway.store import Key, Store
from services.gateway.submit import IDEMPOTENCY_KEY, Submitter, read_key

log = Log("job")


@post(
    "/",
    status_code=HTTPStatus.ACCEPTED,
    summary="Submit a job",
    operation_id="submit_job",
    responses=document(*SENDING, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def submit_job(
    request: Request[Key, Any, Any],
    data: SubmitJob,
    submitter: Submitter,
    links: Links,
    idempotency_key: Annotated[
        str | None, Parameter(header=IDEMPOTENCY_KEY, description="the same within 24 h is the same job")
    ] = None,
) -> Response[JobView]:
    """Answers once the job is committed; it ends in exactly one terminal state."""
    traceparent = tracing.show(get_current_span())
    row, replayed = await submitter.submit(request.user.tenant_id, data, traceparent, read_key(idempotency_key))
    view = view_job(row, links, webhook_status="pending" if data.webhook else "none")
    if replayed:
        log.info("job.replayed", model=row.model, job_id=view.id, trace_id=view.trace_id)
        return Response(view, headers={"Location": f"/v1/jobs/{view.id}", "Idempotency-Replayed": "true"})
    metrics.jobs_submitted.labels(row.model, row.priority).inc()
    log.info("job.accepted", model=row.model, job_id=view.id, priority=row.priority, trace_id=view.trace_id)
    return Response(view, headers={"Location": f"/v1/jobs/{view.id}"})


@get("/{job_id:str}", summary="The state of a job", operation_id="get_job", responses=document(*FINDING))
async def get_job(request: Request[Key, Any, Any], job_id: str, store: Store, links: Links) -> JobView:
    """`queue_position` is approximate."""
    parsed = ids.parse(ids.Kind.JOB, job_id)
    found = await store.find_job(parsed, request.user.tenant_id) if parsed else None
    if found is None:
        raise not_found("job")
    return view_job(
        found.row,
        links,
        webhook_status=found.webhook_status,
        outputs=found.outputs,
        queue_position=found.queue_position,
    )


router = Router("/jobs", route_handlers=[submit_job, get_job], tags=["Jobs"])
