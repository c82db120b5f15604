"""Cancel, retry, attempts, and dead letters."""

from http import HTTPStatus
from typing import Annotated, Any

from litestar import Request, Router, get, post
from litestar.params import Parameter

from common import ids
from common.job_view import JobView, Links, identify, measure, show_time, view_job
from common.logs import Log
from services.gateway.callers import identify_caller
from services.gateway.control import REPLAYABLE, RETRYABLE, Control
from services.gateway.control_store import Attempt
from services.gateway.errors import FINDING, READING, SENDING, FieldError, conflict, document, invalid, not_found
from services.gateway.routes.parameters import NameFilter, TimeFilter, read_span
from services.gateway.routes.references import parse_cursor, parse_id
from services.gateway.schemas import AttemptList, AttemptView, DeadFilter, JobPage, Replay, Replayed, RetryJob
from services.gateway.scopes import Scope, needs
from services.gateway.store import Key, Store

log = Log("job")

Caller = Request[Key, Any, Any]


@post(
    "/jobs/{job_id:str}/cancel",
    status_code=HTTPStatus.ACCEPTED,
    summary="Cancel a job",
    operation_id="cancel_job",
    **needs(Scope.SUBMIT),
    responses=document(*FINDING, HTTPStatus.CONFLICT),
)
async def cancel_job(request: Caller, job_id: str, control: Control, links: Links) -> JobView:
    """Queued, it is canceled at once; running, it is `canceling` until Triton has let go of it."""
    row = await control.cancel(request.user.tenant_id, parse_id(ids.Kind.JOB, job_id))
    log.info(f"job.{row.status}", **identify(row))
    return view_job(row, links, webhook_status="none")


@post(
    "/jobs/{job_id:str}/retry",
    status_code=HTTPStatus.ACCEPTED,
    summary="Run an ended job again",
    operation_id="retry_job",
    **needs(Scope.SUBMIT),
    responses=document(*SENDING, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def retry_job(
    request: Caller, job_id: str, control: Control, store: Store, links: Links, data: RetryJob | None = None
) -> JobView:
    """For a job that failed, was canceled or expired; its attempts count from zero again."""
    parsed, tenant_id = parse_id(ids.Kind.JOB, job_id), request.user.tenant_id
    model = data.model if data else None
    revived = await control.revive(tenant_id, [parsed], RETRYABLE, model)
    found = await store.find_job(parsed, tenant_id)
    if found is None:
        raise not_found("job")
    if found.erased:
        raise conflict("the job was erased: there is nothing to run again")
    if not revived and found.row.status in RETRYABLE and model is not None:
        raise invalid(FieldError("/model", f"'{model}' does not take the job's inputs"))
    if not revived:
        raise conflict(f"the job is {found.row.status}; only a failed, canceled or expired one can be run again")
    log.info("job.retried", **identify(found.row))
    return view_job(found.row, links, webhook_status=found.webhook_status, queue_position=found.queue_position)


@get(
    "/jobs/{job_id:str}/attempts",
    summary="The attempts at a job that have ended",
    operation_id="list_attempts",
    **needs(Scope.READ),
    responses=document(*FINDING),
)
async def list_attempts(request: Caller, job_id: str, control: Control, store: Store) -> AttemptList:
    """Oldest first. A `returned` attempt does not count: Triton, or the worker, went away under it."""
    parsed = parse_id(ids.Kind.JOB, job_id)
    if await store.find_job(parsed, request.user.tenant_id) is None:
        raise not_found("job")
    found = await control.store.list_attempts(parsed, request.user.tenant_id)
    return AttemptList([view_attempt(attempt) for attempt in found])


@get(
    "/dead-letters",
    summary="Jobs that failed for good",
    operation_id="list_dead_letters",
    **needs(Scope.READ),
    responses=document(*READING),
)
async def list_dead_letters(
    request: Caller,
    control: Control,
    links: Links,
    model: NameFilter = None,
    error: NameFilter = None,
    created_after: TimeFilter = None,
    created_before: TimeFilter = None,
    limit: Annotated[int, Parameter(ge=1, le=1000)] = 100,
    cursor: str | None = None,
) -> JobPage:
    """Newest first; pass `next_cursor` as `cursor` for the next page."""
    before = parse_cursor(ids.Kind.JOB, cursor)
    wanted = DeadFilter(model=model, error=error, **read_span(created_after, created_before))
    rows = await control.store.list_dead(request.user.tenant_id, before, wanted, limit + 1)
    items = [view_job(row, links, webhook_status="none") for row in rows[:limit]]
    return JobPage(items, items[-1].id if len(rows) > limit else None)


@post(
    "/dead-letters/replay",
    status_code=HTTPStatus.ACCEPTED,
    summary="Run failed jobs again",
    operation_id="replay_dead_letters",
    **needs(Scope.ADMIN),
    responses=document(*SENDING),
)
async def replay_dead_letters(request: Caller, data: Replay, control: Control) -> Replayed:
    """Those named, or the newest that a filter finds; `remaining` says whether a filter finds more."""
    tenant_id = request.user.tenant_id
    remaining = False
    if data.ids is not None:
        parsed = [ids.parse(ids.Kind.JOB, each) for each in data.ids]
        if None in parsed:
            raise invalid(FieldError(f"/ids/{parsed.index(None)}", "is not the id of a job"))
        jobs = [each for each in parsed if each is not None]
    else:
        rows = await control.store.list_dead(tenant_id, None, data.filter or DeadFilter(), data.limit + 1)
        jobs, remaining = [row.id for row in rows[: data.limit]], len(rows) > data.limit
    replayed = await control.revive(tenant_id, jobs, REPLAYABLE, data.model)
    log.info("dead_letters.replayed", count=len(replayed), model=data.model, **identify_caller(request))
    shown = {job: ids.show(ids.Kind.JOB, job) for job in jobs}
    return Replayed(
        [shown[job] for job in jobs if job in replayed], [shown[job] for job in jobs if job not in replayed], remaining
    )


def view_attempt(attempt: Attempt) -> AttemptView:
    return AttemptView(
        attempt=attempt.attempt,
        status=attempt.status,
        model=attempt.model,
        worker=attempt.worker,
        started_at=show_time(attempt.started_at),
        finished_at=show_time(attempt.finished_at),
        duration_ms=measure(attempt.started_at, attempt.finished_at) or 0,
        error_code=attempt.error_code,
        error_message=attempt.error_message,
    )


router = Router(
    "/", route_handlers=[cancel_job, retry_job, list_attempts, list_dead_letters, replay_dead_letters], tags=["Jobs"]
)
