"""Jobs."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

from litestar import Request, Response, Router, get, post
from litestar.exceptions import HTTPException
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, Operation, Reference, RequestBody
from litestar.params import Parameter
from opentelemetry.trace import get_current_span

from common import ids, tracing
from common.errors import Unavailable
from common.job_view import JobRow, JobView, Links, identify, view_job
from common.jobs import TERMINAL
from common.logs import Log
from services.gateway import metrics
from services.gateway.auth import RECALLS, check_again, check_recalled
from services.gateway.bodies import forget_body
from services.gateway.errors import FINDING, SENDING, Problem, document, not_found
from services.gateway.idempotency import IDEMPOTENCY_KEY, read_label
from services.gateway.preferences import MAX_WAIT, read_wait
from services.gateway.presence import while_present
from services.gateway.scopes import Scope, needs
from services.gateway.store import FoundJob, Key, Store
from services.gateway.submit import Submitted, Submitter
from services.gateway.watch import Watch

log = Log("job")


class Desk(NamedTuple):
    """What calls of one job need. They are most of all calls, so they take it, where Litestar would inject each part by
    a task of its own."""

    submitter: Submitter
    store: Store
    watch: Watch
    links: Links

    @classmethod
    def of(cls, request: Request[Any, Any, Any]) -> "Desk":
        found: Desk = request.app.state.desk
        return found


@dataclass
class OneJob(Operation):
    """The handler reads the body itself, should it be large beside the event loop."""

    def __post_init__(self) -> None:
        content = {"application/json": OpenAPIMediaType(Reference("#/components/schemas/SubmitJob"))}
        self.request_body = RequestBody(content, required=True)


@post(
    "/",
    status_code=HTTPStatus.ACCEPTED,
    summary="Submit a job",
    operation_id="submit_job",
    **needs(Scope.SUBMIT, **{RECALLS: True}),
    operation_class=OneJob,
    responses={
        200: ResponseSpec(
            JobView, description="The job, where it ended within `Prefer: wait=N`", generate_examples=False
        ),
        **document(*SENDING, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
async def submit_job(
    request: Request[Key, Any, Any],
    idempotency_key: Annotated[
        str | None, Parameter(header=IDEMPOTENCY_KEY, description="the same within 24 h is the same job")
    ] = None,
    prefer: Annotated[
        str | None, Parameter(header="Prefer", description="`wait=N`: answer 200 should it end within N (≤ 60) seconds")
    ] = None,
) -> Response[JobView]:
    """Answers once the job is committed; it ends in exactly one terminal state."""
    desk = Desk.of(request)
    row, has_webhook, replayed = await take_body(request, desk.submitter, idempotency_key)
    view = view_job(row, desk.links, webhook_status="pending" if has_webhook else "none")
    headers = {"Location": f"/v1/jobs/{view.id}"}
    if replayed:
        tracing.link(row.traceparent)
        log.info("job.replayed", **identify(row))
        headers["Idempotency-Replayed"] = "true"
    else:
        metrics.jobs_submitted.labels(row.model, row.priority).inc()
        log.info("job.accepted", **identify(row), priority=row.priority)
    seconds = read_wait(",".join(request.headers.getall("prefer"))) if prefer else 0  # all its lines are one list
    if seconds:
        forget_body(request)  # it is a row by now
    if seconds and (found := await await_end(request, row, seconds, desk)):
        headers["Preference-Applied"] = f"wait={seconds}"
        return Response(show_job(found, desk.links), status_code=HTTPStatus.OK, headers=headers)
    return Response(view, headers=headers)


async def take_body(request: Request[Key, Any, Any], submitter: Submitter, key: str | None) -> Submitted:
    """On its own, so that nobody has the body any more while the job is waited for.

    A key that is only remembered is checked with the write, and before any other answer.
    """
    caller, traceparent = request.user, tracing.show(get_current_span())
    try:
        body = await request.body()
        if key is not None:
            await check_recalled(request, caller)
            return await submitter.take(body, await submitter.ask(caller.tenant_id, traceparent, read_label(key, body)))
        key_id = caller.id if caller.recalled else None
        return await submitter.take(body, await submitter.ask(caller.tenant_id, traceparent, key_id=key_id))
    except (Problem, HTTPException):  # the latter of Litestar's, which bounds the body
        await check_recalled(request, caller)
        raise


async def await_end(request: Request[Key, Any, Any], job: JobRow, seconds: float, desk: Desk) -> FoundJob | None:
    """The job, once it has ended; None where that takes longer, or may not or can't be seen: it is accepted still."""
    try:
        await while_present(request.receive, desk.watch.wait(job.id, request.user, seconds))
        await check_again(request)
        found = await desk.store.find_job(job.id, request.user.tenant_id)
    except (Problem, Unavailable) as error:
        log.warning("job.unwatched", **identify(job), error=error)
        return None
    return found if found is not None and found.row.status in TERMINAL else None


@get(
    "/{job_id:str}",
    summary="The state of a job",
    operation_id="get_job",
    **needs(Scope.READ),
    responses=document(*FINDING),
)
async def get_job(
    request: Request[Key, Any, Any],
    job_id: str,
    wait: Annotated[float, Parameter(ge=0, le=MAX_WAIT, description="seconds to wait for its end")] = 0,
) -> JobView:
    """`queue_position` is approximate: as if all tenants took turns from now on, and the classes above went first."""
    desk, parsed = Desk.of(request), ids.parse(ids.Kind.JOB, job_id)
    found = await desk.store.find_job(parsed, request.user.tenant_id) if parsed else None
    if parsed and found and wait and found.row.status not in TERMINAL:
        await while_present(request.receive, desk.watch.wait(parsed, request.user, wait))
        await check_again(request)
        found = await desk.store.find_job(parsed, request.user.tenant_id)
    if found is None:
        raise not_found("job")
    tracing.link(found.row.traceparent)
    return show_job(found, desk.links)


def show_job(found: FoundJob, links: Links) -> JobView:
    return view_job(
        found.row,
        links,
        webhook_status=found.webhook_status,
        outputs=found.outputs,
        queue_position=found.queue_position,
    )


def make_router(largest: int) -> Router:
    """`largest` is the limit of a body, in bytes."""
    return Router("/jobs", route_handlers=[submit_job, get_job], request_max_body_size=largest, tags=["Jobs"])
