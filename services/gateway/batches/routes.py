"""HTTP routes of batches."""

import functools
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency, Provide
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import Parameter, SkipValidation
from litestar.response import Stream
from opentelemetry.trace import get_current_span

from common import ids
from common.job_states import TERMINAL
from common.telemetry import tracing
from common.telemetry.logs import Log
from common.views.batch import BatchRow, BatchView, Counts, view_batch
from common.views.job import JobUrls
from services.gateway.auth.authentication import Authenticator
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.batches.canceler import BatchCanceler
from services.gateway.batches.items import LINES, Items
from services.gateway.batches.results import ResultReader
from services.gateway.batches.schemas import BatchAccepted
from services.gateway.batches.store import BatchStore
from services.gateway.batches.submit import BatchSubmitter
from services.gateway.batches.waiting import BatchWaiting
from services.gateway.http.disconnects import while_connected
from services.gateway.http.limits.response_limits import find_response_lease
from services.gateway.http.negotiation import MAX_WAIT
from services.gateway.http.parameters import parse_id
from services.gateway.http.problems import LATER, WITH_BODY, WITH_ID, conflict, document, not_found, not_ready
from services.gateway.http.telemetry import identify_caller
from services.gateway.http.worker_processes import Workers
from services.gateway.jobs.idempotency.keys import IN_PROGRESS, IdempotencyKey, parse_key

MAX_RESULTS = 1_000_000  # more than a batch has, however it came

log = Log("batch")

Caller = Request[Key, Any, Any]


@dataclass(frozen=True)
class BatchServices:
    authenticator: Authenticator
    submitter: BatchSubmitter
    store: BatchStore
    waiting: BatchWaiting
    canceler: BatchCanceler
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
    responses=document(
        *WITH_BODY, HTTPStatus.CONFLICT, conflict=f"{IN_PROGRESS}. `conflict`: a file was deleted meanwhile"
    ),
)
async def submit_batch(
    request: Caller,
    services: Services,
    idempotency_key: IdempotencyKey = None,
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
async def get_batch(
    request: Caller,
    batch_id: str,
    services: Services,
    wait: Annotated[
        float, Parameter(ge=0, le=MAX_WAIT, description="How many seconds to wait for the end of all jobs.")
    ] = 0,
) -> BatchView:
    """Return the batch and its counts by status. It is completed once every job has ended for the first time.

    With `wait`, return when every job has ended, also those that were retried, or the time is over.
    """
    row, counts = await find_batch(request, batch_id, services)
    if wait and (row.finished_at is None or count_open(counts)):
        await while_connected(request.receive, services.waiting.wait(row.id, request.user, wait))
        await services.authenticator.recheck(request)
        row, counts = await find_batch(request, batch_id, services)
    return view_batch(row, counts, services.urls.public)


@post(
    "/{batch_id:str}/cancel",
    status_code=HTTPStatus.ACCEPTED,
    summary="Cancel a batch",
    operation_id="cancel_batch",
    **needs(Scope.SUBMIT),
    responses=document(*WITH_ID, HTTPStatus.CONFLICT),
)
async def cancel_batch(request: Caller, batch_id: str, services: Services) -> BatchView:
    """Cancel every job of the batch that has not ended. The jobs are canceled one after another, from now on.

    The batch is completed once all have ended. A second call changes nothing.
    """
    canceled = await services.store.cancel(parse_id(ids.Kind.BATCH, batch_id), request.user.tenant_id)
    row, counts = await find_batch(request, batch_id, services)
    if not canceled:
        raise conflict("the batch is completed; only a batch whose jobs have not all ended can be canceled")
    log.info("batch.canceled", batch_id=batch_id, accepted=row.accepted, **identify_caller(request))
    return view_batch(row, counts, services.urls.public)


async def find_batch(request: Caller, batch_id: str, services: BatchServices) -> tuple[BatchRow, Counts]:
    """Return the caller's batch and its counts by status. Raises Problem (404)."""
    row = await services.store.find(parse_id(ids.Kind.BATCH, batch_id), request.user.tenant_id)
    if row is None:
        raise not_found("batch")
    return row, await services.store.count_jobs(row.id)


def count_open(counts: Counts) -> int:
    """Return how many jobs wait or run."""
    return sum(count for status, count in counts.items() if status not in TERMINAL)


@get(
    "/{batch_id:str}/results",
    summary="Get the results of a batch",
    operation_id="get_batch_results",
    **needs(Scope.READ),
    responses={
        200: ResponseSpec(None, description="A line for each item"),
        **document(*WITH_ID, HTTPStatus.CONFLICT, conflict="`not_ready`: a job waits or runs"),
    },
)
async def get_batch_results(
    request: Caller,
    batch_id: str,
    services: Services,
    start: Annotated[
        int,
        Parameter(
            query="from",
            ge=0,
            le=MAX_RESULTS,
            description="The index of the first line: how many lines you have already.",
        ),
    ] = 0,
    partial: Annotated[
        bool, Parameter(description="Whether to send results although some jobs have not ended.")
    ] = False,
) -> Response[Any]:
    """Return a line of JSON for each item of the batch, in the order submitted. A refused item has its error.

    While jobs wait or run, the answer is 409, so that every line is final. With `partial=true`, return all lines as
    they are now. After a lost connection, go on with `from`.
    """
    row, counts = await find_batch(request, batch_id, services)
    if not partial and not row.is_read:
        text = f"{row.accepted} of {row.total} lines are jobs by now; wait with GET /v1/batches/{batch_id}?wait=60"
        raise not_ready(f"{text}, or add partial=true to get what there is", LATER)
    if not partial and (unfinished := count_open(counts)):
        text = (
            f"{unfinished} of {row.accepted} jobs have not ended; wait with GET /v1/batches/{batch_id}?wait=60, "
            "or add partial=true to get what there is"
        )
        raise not_ready(text, LATER)
    lease = find_response_lease(request.scope)
    reader = ResultReader(services.store, services.urls, lease, request.user.tenant_id, row.id)
    first = await reader.read(start)  # now, while the response may still be an error
    sending = reader.send(start, first, functools.partial(services.authenticator.recheck, request))
    return Stream(sending, media_type=LINES[0], headers={"X-Accel-Buffering": "no"})


def make_router(services: BatchServices, max_body: int) -> Router:
    """`max_body` is in bytes."""
    return Router(
        "/batches",
        route_handlers=[submit_batch, get_batch, cancel_batch, get_batch_results],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        request_max_body_size=max_body,
        tags=["Batches"],
    )
