"""HTTP routes of batches in OpenAI's words."""

import hashlib
from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

from litestar import Request, Response, Router, get, post
from litestar.di import Provide
from litestar.params import Parameter
from opentelemetry.trace import get_current_span

from common.telemetry import tracing
from common.telemetry.logs import Log
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.bodies import decode_body
from services.gateway.http.disconnects import while_connected
from services.gateway.http.pagination import Cursor
from services.gateway.http.problems import FieldError, Problem, conflict, invalid, not_found
from services.gateway.http.telemetry import identify_caller
from services.gateway.http.validation.timestamps import LATEST
from services.gateway.jobs.idempotency.keys import IdempotencyKey, parse_key
from services.gateway.jobs.idempotency.store import RequestKey
from services.gateway.openai.batches.dependencies import OpenAIBatchServices, Services
from services.gateway.openai.batches.schemas import BatchRequest, OpenAIBatch, OpenAIBatchList
from services.gateway.openai.batches.store import RequestedBatch
from services.gateway.openai.batches.view import view_batch
from services.gateway.openai.calls.documentation import ANY_CALL, NAMED, SUBMIT, document
from services.gateway.openai.ids import Prefix, parse
from services.gateway.openai.problems import PREFIX

Caller = Request[Key, Any, Any]
MAX_BODY = 64 * 1024  # bytes of a request for a batch
NEWEST = Cursor(LATEST, UUID(int=2**128 - 1))
After = Annotated[str | None, Parameter(description="The id of the last object of the page before.")]

log = Log("batch")


@post(
    "/batches",
    status_code=HTTPStatus.OK,
    summary="Create a batch of a file",
    operation_id="create_openai_batch",
    **needs(Scope.SUBMIT),
    responses=document(*SUBMIT),
)
async def create_openai_batch(
    request: Caller, services: Services, idempotency_key: IdempotencyKey = None
) -> Response[OpenAIBatch]:
    """Read the file, and commit a batch of its lines, which become jobs of the low priority from then on.

    A line that is wrong gets a line in the file of errors, and the others run. If no line is a JSON object, the batch
    has failed, and `errors` says why.
    """
    body = await request.body()
    wanted: BatchRequest = decode_body(body, BatchRequest)
    key = make_key(idempotency_key, body)
    traceparent = tracing.to_traceparent(get_current_span())
    created: list[tuple[UUID, bool]] = []

    async def create() -> None:
        created.append(await services.creator.create(request.user, wanted, key, traceparent))

    if not await while_connected(request.receive, create()):  # it would make a second one
        raise Problem(HTTPStatus.REQUEST_TIMEOUT, "client_gone", "the client disconnected")
    ((batch_id, replayed),) = created
    view = await show(request, services, batch_id)
    log.info(
        "batch.replayed" if replayed else "batch.accepted",
        batch_id=view.id,
        total=view.request_counts.total,
        **identify_caller(request),
    )
    return Response(view, headers={"Idempotency-Replayed": "true"} if replayed else {})


@get(
    "/batches",
    summary="List your batches of files",
    operation_id="list_openai_batches",
    **needs(Scope.READ),
    responses=document(*ANY_CALL),
)
async def list_openai_batches(
    request: Caller,
    services: Services,
    after: After = None,
    limit: Annotated[int, Parameter(ge=1, le=100, description="How many batches the page may have.")] = 20,
) -> OpenAIBatchList:
    """Return your batches that were created of files, newest first."""
    place = NEWEST
    if after is not None:
        batch_id = parse(Prefix.BATCH, after)
        last = None if batch_id is None else await services.store.find(batch_id, request.user.tenant_id)
        if last is None:
            raise invalid(FieldError("after", "is no batch of yours; pass the `last_id` of the page before"))
        place = Cursor(last.row.created_at, last.row.id)
    found = await services.store.list_batches(request.user.tenant_id, place, limit + 1)
    data = await view_all(services, found[:limit])
    ends = (data[0].id, data[-1].id) if data else (None, None)
    return OpenAIBatchList(data=data, first_id=ends[0], last_id=ends[1], has_more=len(found) > limit)


@get(
    "/batches/{batch_id:str}",
    summary="Get a batch of a file",
    operation_id="get_openai_batch",
    **needs(Scope.READ),
    responses=document(*NAMED),
)
async def get_openai_batch(request: Caller, batch_id: str, services: Services) -> OpenAIBatch:
    """Return a batch, and what became of its lines so far."""
    return await show(request, services, parse_batch(batch_id))


@post(
    "/batches/{batch_id:str}/cancel",
    status_code=HTTPStatus.OK,
    summary="Cancel a batch of a file",
    operation_id="cancel_openai_batch",
    **needs(Scope.SUBMIT),
    responses=document(*NAMED),
)
async def cancel_openai_batch(request: Caller, batch_id: str, services: Services) -> OpenAIBatch:
    """Cancel every line that has not ended. The batch is `cancelling` until all have, and keeps what it has by then."""
    parsed = parse_batch(batch_id)
    await find(request, services, parsed)
    canceled = await services.batches.cancel(parsed, request.user.tenant_id)
    view = await show(request, services, parsed)
    if not canceled:
        raise conflict(f"the batch is {view.status}; only a batch that has not ended can be cancelled")
    log.info("batch.canceled", batch_id=batch_id, total=view.request_counts.total, **identify_caller(request))
    return view


def make_key(header: str | None, body: bytes) -> RequestKey | None:
    """Return the key and fingerprint of a request. Raises Problem (422) for an invalid key."""
    key = parse_key(header)
    return None if key is None else RequestKey(key, hashlib.sha256(f"{PREFIX}/batches\n".encode() + body).digest())


def parse_batch(text: str) -> UUID:
    """Return the id in a path. Raises Problem (404)."""
    if (found := parse(Prefix.BATCH, text)) is None:
        raise not_found("batch")
    return found


async def find(request: Caller, services: OpenAIBatchServices, batch_id: UUID) -> RequestedBatch:
    """Return the caller's batch. Raises Problem (404)."""
    if (found := await services.store.find(batch_id, request.user.tenant_id)) is None:
        raise not_found("batch")
    return found


async def show(request: Caller, services: OpenAIBatchServices, batch_id: UUID) -> OpenAIBatch:
    """Return the view of the caller's batch. Raises Problem (404)."""
    (view,) = await view_all(services, [await find(request, services, batch_id)])
    return view


async def view_all(services: OpenAIBatchServices, found: list[RequestedBatch]) -> list[OpenAIBatch]:
    counts = await services.store.count_jobs([each.row for each in found])
    return [view_batch(each, counts.get(each.row.id, {})) for each in found]


def make_router(services: OpenAIBatchServices) -> Router:
    return Router(
        "/",
        route_handlers=[create_openai_batch, list_openai_batches, get_openai_batch, cancel_openai_batch],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        request_max_body_size=MAX_BODY,
        tags=["OpenAI"],
    )
