"""HTTP routes of stored responses: get, cancel, delete, and their input."""

from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import Parameter

from common import ids
from common.job_states import TERMINAL
from common.telemetry import tracing
from common.telemetry.logs import Log
from common.views.job import job_log_fields
from services.gateway.auth.scopes import Scope, needs
from services.gateway.http.disconnects import while_connected
from services.gateway.http.problems import LATER, FieldError, Problem, conflict
from services.gateway.http.telemetry import identify_caller
from services.gateway.openai.calls.documentation import ANY_CALL, document
from services.gateway.openai.calls.submission import Caller
from services.gateway.openai.dependencies import OpenAIServices, Services
from services.gateway.openai.ids import Prefix, encode, parse
from services.gateway.openai.problems import unsupported
from services.gateway.openai.responses.items import Order, UnknownItem, page_items
from services.gateway.openai.responses.stored import StoredResponse, load_response, unknown, view_response
from services.gateway.openai.responses.streams import stream_stored
from services.gateway.openai.responses.views import DeletedResponse, InputItemList, OpenAIResponse

CANCEL_SECONDS = 5.0  # to wait for the end of a job that is canceled while it runs
FOUND = (*ANY_CALL, HTTPStatus.NOT_FOUND)
READ = (*FOUND, HTTPStatus.GONE, HTTPStatus.INTERNAL_SERVER_ERROR)
MEANINGS = {
    HTTPStatus.NOT_FOUND: "There is no such response, it was deleted, it has `store: false`, or it is another tenant's",
    HTTPStatus.GONE: "A file with its answer was deleted",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The model has returned outputs of another form than its kind has",
}
UNREADABLE = {HTTPStatus.CONFLICT: "A later release has made the response; try again after the upgrade"}
RUNNING = {HTTPStatus.CONFLICT: "The response has not ended, or its webhook is being sent"}

log = Log("job")


@get(
    "/responses/{response_id:str}",
    summary="Get a response",
    operation_id="get_response",
    **needs(Scope.READ),
    responses={
        200: ResponseSpec(OpenAIResponse, description="The response, or the stream", generate_examples=False),
        **document(*READ, meanings=MEANINGS),
    },
)
async def get_response(
    request: Caller,
    response_id: str,
    services: Services,
    stream: Annotated[bool, Parameter(description="Whether to stream the response, from its beginning.")] = False,
    starting_after: Annotated[
        int | None,
        Parameter(ge=0, description="The `sequence_number` of an event. The stream begins after it."),
    ] = None,
    include_obfuscation: Annotated[bool, Parameter(description="Without effect: streams are not padded.")] = False,
) -> Response[Any]:
    """Return a response, or stream its events.

    An event has the same number in every stream of its response. A client that has lost a stream gets the rest after
    the last number that it got. Whoever reads such a stream and leaves does not cancel the job.
    """
    del include_obfuscation  # without effect
    if starting_after is not None and not stream:
        raise unsupported(FieldError("starting_after", "is only for streams; send `stream=true` too, or leave it out"))
    if stream:
        services.streams.check_capacity(request)
    stored = await load_response(services, request, response_id)
    row = stored.found.row
    tracing.add_link(row.traceparent)
    if stream:
        after = -1 if starting_after is None else starting_after
        return stream_stored(services, request, row, stored.echo, after)
    return Response(await view_response(services, request, stored))


@post(
    "/responses/{response_id:str}/cancel",
    status_code=HTTPStatus.OK,
    summary="Cancel a response",
    operation_id="cancel_response",
    **needs(Scope.SUBMIT),
    responses=document(*READ, meanings=MEANINGS),
)
async def cancel_response(request: Caller, response_id: str, services: Services) -> OpenAIResponse:
    """Cancel a response in the background, and return it. One that has ended is returned as it is.

    If its model does not stop within 5 seconds, the response is still `in_progress`.
    """
    stored = await load_response(services, request, response_id)
    if not stored.echo.background:
        text = "only a response with `background: true` can be canceled; to cancel another, close its connection"
        raise Problem(HTTPStatus.BAD_REQUEST, "not_in_background", text)
    if stored.found.row.status not in TERMINAL:
        stored = await cancel(services, request, stored, response_id)
    return await view_response(services, request, stored)


async def cancel(services: OpenAIServices, request: Caller, stored: StoredResponse, response_id: str) -> StoredResponse:
    """Cancel the job of a response, and return it as it is then, at its end if that comes soon."""
    row = stored.found.row
    try:
        row = await services.jobs.canceler.cancel(row.tenant_id, row.id)
        log.info(f"job.{row.status}", **job_log_fields(row))
    except Problem as problem:
        if problem.status is not HTTPStatus.CONFLICT:  # it has ended meanwhile
            raise
    if row.status not in TERMINAL:
        with suppress(Problem):  # too many requests wait
            await while_connected(request.receive, services.jobs.waiters.wait(row.id, request.user, CANCEL_SECONDS))
    await services.jobs.authenticator.recheck(request)
    return await load_response(services, request, response_id)


@delete(
    "/responses/{response_id:str}",
    status_code=HTTPStatus.OK,
    summary="Delete a response",
    operation_id="delete_response",
    **needs(Scope.ADMIN),
    responses=document(*FOUND, HTTPStatus.CONFLICT, meanings=MEANINGS | RUNNING),
)
async def delete_response(request: Caller, response_id: str, services: Services) -> DeletedResponse:
    """Erase the payload of an ended response: its input, its answer and its metadata. Its job remains without them.

    Deleting it again has no effect. Responses that continue it are as they were, but cannot be continued.
    """
    job_id, tenant_id = parse(Prefix.RESPONSE, response_id), request.user.tenant_id
    found = None if job_id is None else await services.jobs.store.find_job(job_id, tenant_id)
    if found is None:
        raise unknown(response_id)
    if not found.erased:
        await load_response(services, request, response_id)
    if await services.jobs.eraser.erase(tenant_id, found.row.id):
        log.info("job.erased", job_id=ids.encode(ids.Kind.JOB, found.row.id), **identify_caller(request))
    return DeletedResponse(encode(Prefix.RESPONSE, found.row.id))


@get(
    "/responses/{response_id:str}/input_items",
    summary="List the input of a response",
    operation_id="list_input_items",
    **needs(Scope.READ),
    responses=document(*FOUND, HTTPStatus.CONFLICT, meanings=MEANINGS | UNREADABLE),
)
async def list_input_items(
    request: Caller,
    response_id: str,
    services: Services,
    after: Annotated[str | None, Parameter(description="The id of a message. The page begins after it.")] = None,
    limit: Annotated[int, Parameter(ge=1, le=100, description="How many messages the page may have.")] = 20,
    order: Annotated[Order, Parameter(description="The order: `desc` begins with the last message.")] = "desc",
) -> InputItemList:
    """Return the messages of the response's own `input`, without those of responses that it continues."""
    stored = await load_response(services, request, response_id)
    letters = encode(Prefix.MESSAGE, stored.found.row.id)
    body = stored.request.body
    try:
        return await services.submission.workers.work(len(body), page_items, letters, body, after, limit, order)
    except UnknownItem:
        text = "is not the id of a message of this response; use an id that this call returned"
        raise unsupported(FieldError("after", text)) from None
    except msgspec.ValidationError as error:
        text = "a later release has made this response, and this gateway cannot read its input; try again"
        raise conflict(text, LATER) from error
