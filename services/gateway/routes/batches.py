"""Batches."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from litestar import Request, Response, Router, get, post
from litestar.openapi.spec import OpenAPIMediaType, Operation, Reference, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIType
from litestar.params import Parameter
from opentelemetry.trace import get_current_span

from common import ids, tracing
from common.batch_view import BatchView, view_batch
from common.job_view import Links
from common.logs import Log
from services.gateway.batch_store import BatchStore
from services.gateway.batches import BatchSubmitter
from services.gateway.bodies import LINES, MAX_ITEMS, Items
from services.gateway.callers import identify_caller
from services.gateway.errors import FINDING, SENDING, document, not_found
from services.gateway.idempotency import IDEMPOTENCY_KEY, read_key
from services.gateway.routes.references import parse_id
from services.gateway.schemas import BatchAccepted
from services.gateway.scopes import Scope, needs
from services.gateway.store import Key

log = Log("batch")

Caller = Request[Key, Any, Any]
JOB = Reference("#/components/schemas/SubmitJob")
MANY = Schema(type=OpenAPIType.ARRAY, items=JOB, min_items=1, max_items=MAX_ITEMS)
BODY = RequestBody(
    description="A list of jobs, or a job in each line, as POST /v1/jobs takes them",
    content={"application/json": OpenAPIMediaType(MANY), LINES[0]: OpenAPIMediaType(JOB)},
    required=True,
)


@dataclass
class ManyJobs(Operation):
    """Litestar knows nothing of a body that a handler reads itself."""

    def __post_init__(self) -> None:
        self.request_body = BODY


@post(
    "/",
    status_code=HTTPStatus.ACCEPTED,
    summary="Submit many jobs",
    operation_id="submit_batch",
    **needs(Scope.SUBMIT),
    operation_class=ManyJobs,
    responses=document(*SENDING, HTTPStatus.CONFLICT),
)
async def submit_batch(
    request: Caller,
    batches: BatchSubmitter,
    links: Links,
    idempotency_key: Annotated[
        str | None, Parameter(header=IDEMPOTENCY_KEY, description="the same within 24 h is the same batch")
    ] = None,
) -> Response[BatchAccepted]:
    """Answers once all jobs that are right are committed, and tells what is wrong with each of the others."""
    key, traceparent = read_key(idempotency_key), tracing.show(get_current_span())
    items = Items(request, request.app.state.max_body, batches.submitter.workers)
    row, counts, errors, replayed = await batches.submit(request.user.tenant_id, items, traceparent, key)
    shown = view_batch(row, counts, links.public)
    view = BatchAccepted(**{name: getattr(shown, name) for name in shown.__struct_fields__}, errors=errors)
    name = "batch.replayed" if replayed else "batch.accepted"
    log.info(name, batch_id=view.id, accepted=row.accepted, total=row.total, **identify_caller(request))
    headers = {"Location": f"/v1/batches/{view.id}"} | ({"Idempotency-Replayed": "true"} if replayed else {})
    return Response(view, headers=headers)


@get(
    "/{batch_id:str}",
    summary="The state of a batch",
    operation_id="get_batch",
    **needs(Scope.READ),
    responses=document(*FINDING),
)
async def get_batch(request: Caller, batch_id: str, batch_store: BatchStore, links: Links) -> BatchView:
    """It is completed, and `batch.completed` sent, when all its jobs have ended for the first time."""
    row = await batch_store.find(parse_id(ids.Kind.BATCH, batch_id), request.user.tenant_id)
    if row is None:
        raise not_found("batch")
    return view_batch(row, await batch_store.count_jobs(row.id), links.public)


def make_router(largest: int) -> Router:
    """`largest` is the limit of a body, in bytes."""
    return Router("/batches", route_handlers=[submit_batch, get_batch], request_max_body_size=largest, tags=["Batches"])
