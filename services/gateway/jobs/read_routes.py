"""HTTP routes that read jobs: get, list, attempts, inputs and outputs."""

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Request, get
from litestar.params import Parameter

from common import ids
from common.job_states import TERMINAL, Status
from common.telemetry import tracing
from common.views.job import JobView, duration_ms, format_time, list_job, view_job
from common.views.job_parts import AttemptFailure
from services.gateway.auth.scopes import OPTION, OWN_AUTHENTICATION, Scope, needs
from services.gateway.auth.signed_urls import check_signed_url
from services.gateway.auth.store import Key
from services.gateway.http.disconnects import while_connected
from services.gateway.http.limits.response_limits import LARGE, find_response_lease
from services.gateway.http.negotiation import MAX_WAIT
from services.gateway.http.pagination import Cursor, decode_cursor, encode_cursor
from services.gateway.http.parameters import (
    CreatedAfter,
    CreatedBefore,
    CursorParameter,
    Limit,
    ModelFilter,
    check_parameters,
    explain_id,
    make_name_filter,
    parse_id,
    read_span,
    wrong_cursor,
)
from services.gateway.http.problems import (
    ANY_CALL,
    LATER,
    WITH_ID,
    FieldError,
    Problem,
    document,
    invalid,
    not_found,
    not_ready,
)
from services.gateway.jobs.dependencies import JobServices, Services
from services.gateway.jobs.inputs.rendering import load_inputs
from services.gateway.jobs.inputs.schemas import InputsView
from services.gateway.jobs.outputs import load_outputs
from services.gateway.jobs.runs.step_lists import list_step_jobs
from services.gateway.jobs.schemas import AttemptList, AttemptView, JobPage, OutputsView
from services.gateway.jobs.store import AttemptRow, FoundJob, JobFilter

BATCH = {"pattern": ids.make_pattern(ids.Kind.BATCH)}
JOB = {"pattern": ids.make_pattern(ids.Kind.JOB)}

Caller = Request[Key, Any, Any]


@get(
    "/jobs/{job_id:str}",
    summary="Get a job",
    operation_id="get_job",
    **needs(Scope.READ),
    responses=document(*WITH_ID),
)
async def get_job(
    request: Caller,
    job_id: str,
    services: Services,
    wait: Annotated[
        float, Parameter(ge=0, le=MAX_WAIT, description="How many seconds to wait for the end of the job.")
    ] = 0,
) -> JobView:
    """Return the job. With `wait`, return when it ends or the time is over.

    `waiting_for` says why a queued job does not run yet, as of the last second.

    `queue_position` is approximate. It assumes that no more jobs arrive, and that all tenants are served in turn.
    """
    parsed = parse_id(ids.Kind.JOB, job_id)
    found = await services.store.find_job(parsed, request.user.tenant_id)
    if found and wait and found.row.status not in TERMINAL:
        await while_connected(request.receive, services.waiters.wait(parsed, request.user, wait))
        await services.authenticator.recheck(request)
        found = await services.store.find_job(parsed, request.user.tenant_id)
    if found is None:
        raise not_found("job")
    tracing.add_link(found.row.traceparent)
    return await show_job(services, await load_outputs(request, services.store, found))


async def show_job(services: JobServices, found: FoundJob) -> JobView:
    """Return the whole view of a job."""
    return view_job(
        found.row,
        services.urls,
        webhook_status=found.webhook_status,
        outputs=None if found.outputs is None else services.urls.add_file_urls(found.outputs, job=found.row.sharing_id),
        queue_position=found.queue_position,
        waiting_for=await services.waits.explain(found.row, found.queue_position),
        steps=await services.runs.view_steps(found.row),
        request=found.request,
        has_large_request=found.request is None and found.request_size is not None,
    )


@get(
    "/jobs",
    summary="List your jobs",
    operation_id="list_jobs",
    **needs(Scope.READ),
    responses=document(*ANY_CALL),
)
async def list_jobs(
    request: Caller,
    services: Services,
    status: Annotated[Status | None, Parameter(description="Only jobs in this state.")] = None,
    model: ModelFilter = None,
    batch: Annotated[str | None, Parameter(schema_extra=BATCH, description="Only jobs of this batch.")] = None,
    parent: Annotated[
        str | None, Parameter(schema_extra=JOB, description="Only jobs of the steps of this run.")
    ] = None,
    step: Annotated[str | None, make_name_filter("Only jobs of this step; `parent` must be given, too.")] = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 100,
    cursor: CursorParameter = None,
) -> JobPage:
    """Return jobs without their outputs, newest first. `outputs_url` of a job has them.

    `waiting_for` does not count the jobs ahead.

    Jobs of the steps of a run are listed only with `parent`: by the step, and in the order of its elements.

    Pass `next_cursor` as `cursor`, with the same filter, to get the next page.
    """
    tenant_id = request.user.tenant_id
    filters = JobFilter(
        status=status,
        model=model,
        batch_id=parse_filter(ids.Kind.BATCH, "batch", batch),
        parent=parse_filter(ids.Kind.JOB, "parent", parent),
        step=step,
        **read_span(created_after, created_before),
    )
    if filters.parent is not None or step is not None:
        return await list_step_jobs(services, tenant_id, filters, limit, cursor)
    after = decode_cursor(cursor, tenant_id, filters) if cursor else None
    if cursor and after is None:
        raise invalid(wrong_cursor())
    rows = await services.store.list_jobs(tenant_id, filters, after, limit + 1)
    items = [list_job(row, services.urls, await services.waits.explain(row)) for row in rows[:limit]]
    last = Cursor(rows[limit - 1].created_at, rows[limit - 1].id) if len(rows) > limit else None
    return JobPage(items, encode_cursor(last, tenant_id, filters) if last else None)


def parse_filter(kind: ids.Kind, name: str, text: str | None) -> UUID | None:
    """Parse an id in a query parameter. Raises Problem (422)."""
    if text is None:
        return None
    found = ids.parse(kind, text)
    if found is None:
        raise invalid(FieldError(name, explain_id(kind, text)))
    return found


@get(
    "/jobs/{job_id:str}/attempts",
    summary="List the ended attempts of a job",
    operation_id="list_attempts",
    **needs(Scope.READ),
    responses=document(*WITH_ID),
)
async def list_attempts(request: Caller, job_id: str, services: Services) -> AttemptList:
    """Return the ended attempts, oldest first, at most the latest 1000.

    A `returned` attempt does not count, because Triton did not accept it, or Triton or the worker stopped during it.
    """
    parsed = parse_id(ids.Kind.JOB, job_id)
    if not await services.store.has_job(parsed, request.user.tenant_id):
        raise not_found("job")
    found = await services.store.list_attempts(parsed, request.user.tenant_id)
    return AttemptList([view_attempt(attempt) for attempt in found], next_cursor=None)


def view_attempt(attempt: AttemptRow) -> AttemptView:
    return AttemptView(
        attempt=attempt.attempt,
        count=attempt.count,
        status=attempt.status,
        model=attempt.model,
        worker=attempt.worker,
        started_at=format_time(attempt.started_at),
        finished_at=format_time(attempt.finished_at),
        duration_ms=duration_ms(attempt.started_at, attempt.finished_at) or 0,
        error=None if attempt.error_code is None else AttemptFailure(attempt.error_code, attempt.error_message or ""),
    )


@get(
    "/jobs/{job_id:str}/inputs",
    summary="Get the inputs of a job",
    operation_id="get_inputs",
    **needs(Scope.READ),
    responses=document(*WITH_ID),
)
async def get_inputs(request: Caller, job_id: str, services: Services) -> InputsView:
    """Return the inputs as the job was submitted, also after its end.

    An input that you gave as a file, a URL or an object of a bucket is shown as that. So is a large one, as a file.
    """
    found = await services.store.find_inputs(parse_id(ids.Kind.JOB, job_id), request.user.tenant_id)
    if found is None:
        raise not_found("job")
    inputs = await load_inputs(request, services.store, services.submitter.workers, found)
    if isinstance(inputs, str):
        return InputsView(job_id, None, inputs)
    return InputsView(job_id, msgspec.Raw(services.urls.add_file_urls(inputs)))


@get(
    "/jobs/{job_id:str}/outputs",
    summary="Get the outputs of a succeeded job",
    operation_id="get_outputs",
    opt={OPTION: Scope.READ, OWN_AUTHENTICATION: True},
    security=[{}, {"key": [Scope.READ.value]}],
    responses=document(*WITH_ID, HTTPStatus.CONFLICT, conflict="`not_ready`: the job has not ended"),
)
async def get_outputs(
    request: Request[Any, Any, Any],
    job_id: str,
    services: Services,
    expires: Annotated[int | None, Parameter(description="Part of a signed URL: when it expires.")] = None,
    signature: Annotated[str | None, Parameter(description="Part of a signed URL: its signature.")] = None,
) -> OutputsView:
    """Return all outputs. The signed `outputs_url` of a webhook needs no API key.

    The URLs of files in its answer expire with it. Of an erased job, `outputs` is null. A job that has not ended gets
    409, and one that ended without success 404 `no_outputs`.
    """
    check_parameters(request)
    parsed, until = parse_id(ids.Kind.JOB, job_id), None
    if expires is not None and signature is not None:
        check_signed_url(services.signer, parsed, "job", expires, signature)
        until = datetime.fromtimestamp(expires, UTC)
    else:
        key = await services.authenticator.authenticate(request)
        if not await services.store.has_job(parsed, key.tenant_id):
            raise not_found("job")
    measured = await services.store.measure_outputs(parsed)
    if measured is not None and measured.size > LARGE:
        await find_response_lease(request.scope).reserve(measured.tenant_id, measured.size)
    outputs = await services.store.read_outputs(parsed) if measured else None
    if measured is None or outputs is None:
        status = await services.store.find_status(parsed)
        if status is not Status.SUCCEEDED:
            raise lack_outputs(status)
        return OutputsView(job_id, None, "erased")
    job = parsed if measured.is_shared else None
    return OutputsView(job_id, msgspec.Raw(services.urls.add_file_urls(outputs, until=until, job=job)))


def lack_outputs(status: Status | None) -> Problem:
    """Return why a job that has not succeeded has no outputs; it may have been deleted meanwhile."""
    match status:
        case None:
            return not_found("job")
        case Status.FAILED:
            text = "the job failed, so it has no outputs; its `error` says why"
        case Status.CANCELED:
            text = "the job was canceled, so it has no outputs"
        case Status.EXPIRED:
            text = "the job expired before it started, so it has no outputs"
        case _:
            text = f"the job is {status}, so it has no outputs yet; wait for its end with GET /v1/jobs/{{id}}?wait=60"
            return not_ready(text, LATER)
    return Problem(HTTPStatus.NOT_FOUND, "no_outputs", text)
