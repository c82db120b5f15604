"""HTTP routes that submit and change jobs: submit, cancel, retry and erase."""

from http import HTTPStatus
from typing import Annotated, Any

from litestar import Request, Response, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import Parameter
from opentelemetry.trace import get_current_span

from common import ids
from common.errors import Unavailable
from common.job_states import TERMINAL
from common.jobs.job import Job
from common.telemetry import tracing
from common.telemetry.logs import Log
from common.views.job import JobView, job_log_fields, view_job
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.events.routes import open_stream, wants_stream
from services.gateway.http.bodies import forget_body
from services.gateway.http.disconnects import while_connected
from services.gateway.http.limits.body_limits import find_lease
from services.gateway.http.negotiation import read_wait
from services.gateway.http.parameters import parse_id
from services.gateway.http.problems import (
    LATER,
    WITH_BODY,
    WITH_ID,
    FieldError,
    Problem,
    conflict,
    document,
    invalid,
    not_found,
)
from services.gateway.http.telemetry import identify_caller
from services.gateway.jobs.actions.retry import RETRYABLE
from services.gateway.jobs.dependencies import JobServices, Services
from services.gateway.jobs.idempotency.keys import IN_PROGRESS, IdempotencyKey, parse_request_key
from services.gateway.jobs.outputs import load_outputs
from services.gateway.jobs.read_routes import show_job
from services.gateway.jobs.runs.retry import Refusal
from services.gateway.jobs.schemas import RetryJob
from services.gateway.jobs.store import FoundJob
from services.gateway.jobs.submit import SubmittedJob, count_submitted

log = Log("job")

NOT_LOADED = "`model_not_loaded`: Triton has never served the model"

Caller = Request[Key, Any, Any]


@post(
    "/jobs",
    status_code=HTTPStatus.ACCEPTED,
    summary="Submit a job",
    operation_id="submit_job",
    **needs(Scope.SUBMIT),
    responses={
        200: ResponseSpec(
            JobView, description="The ended job, with `Prefer: wait=N`; or the stream", generate_examples=False
        ),
        202: ResponseSpec(JobView, description="The accepted job", generate_examples=False),
        **document(*WITH_BODY, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, conflict=f"{IN_PROGRESS}. {NOT_LOADED}"),
    },
)
async def submit_job(
    request: Caller,
    services: Services,
    idempotency_key: IdempotencyKey = None,
    prefer: Annotated[
        str | None,
        Parameter(
            header="Prefer",
            description="`wait=N` waits up to N seconds for the end of the job. More than 60 counts as 60, as RFC 7240 "
            "lets a server do. If the job ends in time, the answer is a 200, and `Preference-Applied` has the wait "
            "that counted. Else it is a 202 with the job as it is then.",
        ),
    ] = None,
) -> Response[Any]:
    """Commit a job, and return it. Every job ends in exactly one terminal status.

    With `Accept: text/event-stream`, return the stream of its events, until it ends. The job goes on if the client
    leaves: read the rest at the path in `Location`, followed by `/events`.
    """
    streams = wants_stream(request)
    if streams:
        services.waiters.check_capacity(request.user.tenant_id)  # before anything is written
    row, has_webhook, replayed, outputs = await submit_body(request, services, idempotency_key)
    has_ended = row.status in TERMINAL  # it took a result at once
    view = view_job(
        row,
        services.urls,
        webhook_status="pending" if has_webhook and not has_ended else None,
        outputs=None if outputs is None else services.urls.add_file_urls(outputs, job=row.sharing_id),
    )
    if has_ended and outputs is None:  # a large one, or at an earlier request
        view = await read_view(request, row, services) or view
    headers = {"Location": f"/v1/jobs/{view.id}"}
    if replayed:
        tracing.add_link(row.traceparent)
        log.info("job.replayed", **job_log_fields(row))
        headers["Idempotency-Replayed"] = "true"
    else:
        count_submitted(row)
        log.info("job.accepted", **job_log_fields(row), priority=row.priority)
    if streams:
        forget_body(request)  # the job is in the database now
        return open_stream(services.events, request, row.id, headers=headers)
    seconds = read_wait(",".join(request.headers.getall("prefer"))) if prefer else 0  # several headers form one list
    if seconds:
        forget_body(request)
    latest = view if has_ended else await await_end(request, row, seconds, services) if seconds else None
    if seconds and latest is not None and latest.status in TERMINAL:
        headers["Preference-Applied"] = f"wait={seconds}"
        return Response(latest, status_code=HTTPStatus.OK, headers=headers)
    return Response(latest or view, headers=headers)


async def submit_body(request: Caller, services: JobServices, key: str | None) -> SubmittedJob:
    """Submit the job of a body. A function of its own, so that the body is freed before a wait."""
    traceparent = tracing.to_traceparent(get_current_span())
    body = await request.body()
    context = await services.submitter.make_context(request.user, traceparent, parse_request_key(key, body))
    return await services.submitter.submit(body, context, find_lease(request.scope))


async def await_end(request: Caller, job: Job, seconds: float, services: JobServices) -> JobView | None:
    """Return the job once it has ended, or as it is after `seconds`. Return None if it cannot be read."""
    try:
        await while_connected(request.receive, services.waiters.wait(job.id, request.user, seconds))
        await services.authenticator.recheck(request)
    except (Problem, Unavailable) as error:  # the job is accepted nevertheless
        log.warning("job.wait_failed", **job_log_fields(job), error=error)
        return None
    return await read_view(request, job, services)


async def read_view(request: Caller, job: Job, services: JobServices) -> JobView | None:
    """Return the job as it is, with its outputs. Return None if it cannot be read."""
    try:
        found = await services.store.find_job(job.id, request.user.tenant_id)
        if found is None:
            return None
        return await show_job(services, await load_outputs(request, services.store, found))
    except (Problem, Unavailable) as error:  # the job is accepted nevertheless
        log.warning("job.read_failed", **job_log_fields(job), error=error)
        return None


@post(
    "/jobs/{job_id:str}/cancel",
    status_code=HTTPStatus.ACCEPTED,
    summary="Cancel a job",
    operation_id="cancel_job",
    **needs(Scope.SUBMIT),
    responses=document(*WITH_ID, HTTPStatus.CONFLICT),
)
async def cancel_job(request: Caller, job_id: str, services: Services) -> JobView:
    """Cancel a queued job or a run at once. A running job is `canceling` until its call to Triton has ended.

    The jobs of a run's steps are canceled with it.
    """
    row = await services.canceler.cancel(request.user.tenant_id, parse_id(ids.Kind.JOB, job_id))
    log.info(f"job.{row.status}", **job_log_fields(row))
    return view_job(row, services.urls)


@post(
    "/jobs/{job_id:str}/retry",
    status_code=HTTPStatus.ACCEPTED,
    summary="Retry an ended job",
    operation_id="retry_job",
    **needs(Scope.SUBMIT),
    responses=document(*WITH_BODY, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def retry_job(request: Caller, job_id: str, services: Services, data: RetryJob | None = None) -> JobView:
    """Queue a failed, canceled or expired job again, on its own model or on `target_model`.

    Its attempts count from zero. A run of a pipeline goes on from what failed, and keeps what succeeded. Until the jobs
    of its steps have ended, the answer is 409.
    """
    parsed, tenant_id = parse_id(ids.Kind.JOB, job_id), request.user.tenant_id
    target = data.target_model if data else None
    retried = await services.retrier.retry(request.user, [parsed], RETRYABLE, target)
    found = await services.store.find_job(parsed, tenant_id)
    services.retrier.announce(retried.wake_ups)
    if found is None:
        raise not_found("job")
    if not retried.wake_ups:
        raise refuse_retry(found, retried.refused.get(parsed))
    log.info("job.retried", **job_log_fields(found.row))
    return await show_job(services, found)


def refuse_retry(found: FoundJob, refusal: Refusal | None) -> Problem:
    """Return why a job was not retried."""
    if found.erased:
        return conflict("the job was erased, so it has no inputs; submit a new job")
    if refusal is not None and refusal.code == "inputs_refused":
        return invalid(FieldError("/target_model", refusal.detail))
    if refusal is not None:
        return conflict(refusal.detail, LATER if refusal.code == "steps_not_ended" else None)
    return conflict(f"the job is {found.row.status}; only a failed, canceled or expired job can be retried")


@post(
    "/jobs/{job_id:str}/erase",
    status_code=HTTPStatus.NO_CONTENT,
    summary="Erase the payload of a job",
    operation_id="erase_job",
    **needs(Scope.ADMIN),
    responses=document(*WITH_ID, HTTPStatus.CONFLICT),
)
async def erase_job(request: Caller, job_id: str, services: Services) -> None:
    """Delete the inputs, outputs, metadata, error messages and webhooks of an ended job, and its pending deliveries.

    The job itself remains, with its status and times. Erasing it again has no effect. The jobs of a run's steps are
    erased with it.
    """
    if await services.eraser.erase(request.user.tenant_id, parse_id(ids.Kind.JOB, job_id)):
        log.info("job.erased", job_id=job_id, **identify_caller(request))
