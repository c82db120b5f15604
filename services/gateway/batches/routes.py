"""HTTP routes of batches."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency, Provide
from litestar.params import Parameter, SkipValidation
from opentelemetry.trace import get_current_span

from common import ids
from common.telemetry import tracing
from common.telemetry.logs import Log
from common.views.batch import BatchView, view_batch
from common.views.job import JobUrls
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.batches.items import Items
from services.gateway.batches.schemas import BatchAccepted
from services.gateway.batches.store import BatchStore
from services.gateway.batches.submit import BatchSubmitter
from services.gateway.http.parameters import parse_id
from services.gateway.http.problems import WITH_BODY, WITH_ID, document, not_found
from services.gateway.http.telemetry import identify_caller
from services.gateway.http.worker_processes import Workers
from services.gateway.jobs.idempotency import IDEMPOTENCY_KEY, parse_key

log = Log("batch")

Caller = Request[Key, Any, Any]


@dataclass(frozen=True)
class BatchServices:
    submitter: BatchSubmitter
    store: BatchStore
    workers: Workers
    urls: JobUrls
    max_item: int  # bytes of one job


Services = NamedDependency[SkipValidation[BatchServices]]


@post(
    "/",
    status_code=HTTPStatus.ACCEPTED,
    summary="Submit many jobs",
    operation_id="submit_batch",
    **needs(Scope.SUBMIT),
    responses=document(*WITH_BODY, HTTPStatus.CONFLICT),
)
async def submit_batch(
    request: Caller,
    services: Services,
    idempotency_key: Annotated[
        str | None,
        Parameter(header=IDEMPOTENCY_KEY, description="for 24 h, the same key returns the same batch"),
    ] = None,
) -> Response[BatchAccepted]:
    """Commit all valid jobs, and return the errors of the others."""
    key, traceparent = parse_key(idempotency_key), tracing.to_traceparent(get_current_span())
    items = Items(request, services.max_item, services.workers)
    row, counts, errors, replayed = await services.submitter.submit(request.user, items, traceparent, key)
    shown = view_batch(row, counts, services.urls.public)
    view = BatchAccepted(**{name: getattr(shown, name) for name in shown.__struct_fields__}, errors=errors)
    name = "batch.replayed" if replayed else "batch.accepted"
    log.info(name, batch_id=view.id, accepted=row.accepted, total=row.total, **identify_caller(request))
    headers = {"Location": f"/v1/batches/{view.id}"} | ({"Idempotency-Replayed": "true"} if replayed else {})
    return Response(view, headers=headers)


@get(
    "/{batch_id:str}",
    summary="Get a batch",
    operation_id="get_batch",
    **needs(Scope.READ),
    responses=document(*WITH_ID),
)
async def get_batch(request: Caller, batch_id: str, services: Services) -> BatchView:
    """Return the batch and its counts by status. It is completed once every job has ended for the first time."""
    row = await services.store.find(parse_id(ids.Kind.BATCH, batch_id), request.user.tenant_id)
    if row is None:
        raise not_found("batch")
    return view_batch(row, await services.store.count_jobs(row.id), services.urls.public)


def make_router(services: BatchServices, max_body: int) -> Router:
    """`max_body` is in bytes."""
    return Router(
        "/batches",
        route_handlers=[submit_batch, get_batch],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        request_max_body_size=max_body,
        tags=["Batches"],
    )
