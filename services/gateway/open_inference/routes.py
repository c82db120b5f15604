"""HTTP route of the infer call of the Open Inference Protocol."""

from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from litestar import Request, Response, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import Parameter, PathParameter
from opentelemetry.trace import get_current_span

from common import ids
from common.telemetry import tracing
from common.views.job import JobRow
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.body_limits import find_lease
from services.gateway.http.compression import choose_encoding, compress, read_body
from services.gateway.http.disconnects import await_disconnect
from services.gateway.http.problems import Problem
from services.gateway.jobs.outputs import load_outputs
from services.gateway.jobs.store import FoundJob
from services.gateway.open_inference.dependencies import InferenceServices, Services
from services.gateway.open_inference.operations import document, find_model, name_operation
from services.gateway.open_inference.parse import InferCall
from services.gateway.open_inference.requests import JSON_LENGTH_HEADER, ResponseFormat
from services.gateway.open_inference.responses import InferAnswer, render_response

JOB_HEADER = "X-Charonia-Job"
PATHS = ["/models/{model:str}/infer", "/models/{model:str}/versions/{version:str}/infer"]
ERROR_STATUSES = (
    *(HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND, HTTPStatus.REQUEST_TIMEOUT),
    *(HTTPStatus.CONFLICT, HTTPStatus.GONE, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    *(HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS),
    *(HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.SERVICE_UNAVAILABLE),
    HTTPStatus.GATEWAY_TIMEOUT,
)

Caller = Request[Key, Any, Any]


@post(
    PATHS,
    status_code=HTTPStatus.OK,
    summary="Run a model and wait for its outputs",
    operation_id=name_operation("infer"),
    **needs(Scope.SUBMIT),
    responses={
        200: ResponseSpec(InferAnswer, description="The outputs", generate_examples=False),
        **document(*ERROR_STATUSES),
    },
)
async def infer(
    request: Caller,
    model: Annotated[str, PathParameter()],
    services: Services,
    version: Annotated[str | None, PathParameter()] = None,
    json_length: Annotated[
        str | None,
        Parameter(
            header=JSON_LENGTH_HEADER,
            description="How many bytes of JSON the body has, if raw tensors follow it.",
            schema_extra={"pattern": "^[0-9]{1,19}$"},
        ),
    ] = None,
) -> Response[bytes]:
    """Run a job through the queue and return its outputs, as Triton would.

    Binary tensors and compression work as in Triton. The header `X-Charonia-Job` has the job's id.
    """
    row, requested = await submit_job(request, model, version, json_length, services)
    job_id = ids.encode(ids.Kind.JOB, row.id)
    headers = {JOB_HEADER: job_id, "Location": f"/v1/jobs/{job_id}"}
    find_lease(request.scope).release()  # the job is in the database now

    try:
        disconnected = partial(await_disconnect, request.receive)
        found = await services.inference.await_result(row, request.user, disconnected)
        await services.authenticator.recheck(request)
        found = await load_outputs(request, services.inference.store, found)
        return await respond(request, services, found, requested, headers)
    except Problem as problem:
        problem.headers |= headers
        raise


async def submit_job(
    request: Caller, name: str, version: str | None, json_length: str | None, services: InferenceServices
) -> tuple[JobRow, ResponseFormat]:
    """Commit the job of a request. The request's body is freed on return."""
    model = await find_model(services.catalogue, request.user, name, version)
    if model.decoupled:
        text = "HTTP end point doesn't support models with decoupled transaction policy: use POST /v1/jobs"  # as Triton
        raise Problem(HTTPStatus.NOT_IMPLEMENTED, "unsupported", text)
    body = await read_body(request, services.max_body)
    traceparent = tracing.to_traceparent(get_current_span())
    context = await services.inference.submitter.make_context(request.user, traceparent)
    call = InferCall(name, version, json_length, model.outputs)
    job, requested = await services.inference.parse(body, call, context)
    return await services.inference.submit(job), requested


async def respond(
    request: Caller,
    services: InferenceServices,
    found: FoundJob,
    requested: ResponseFormat,
    headers: dict[str, str],
) -> Response[bytes]:
    """Return the outputs of a succeeded job in the requested format and encoding."""
    row, outputs = found.row, found.outputs or b"[]"
    encoding = choose_encoding(request.headers.get("accept-encoding"))
    body, length = await services.workers.work(
        len(outputs), render, requested, row.model, row.version or "", outputs, encoding
    )
    if encoding is not None:
        headers["Content-Encoding"] = encoding
    if length is not None:
        headers[JSON_LENGTH_HEADER] = str(length)
    media_type = "application/json" if length is None else "application/octet-stream"
    return Response(body, media_type=media_type, headers=headers)


def render(
    requested: ResponseFormat, model: str, version: str, outputs: bytes, encoding: str | None
) -> tuple[bytes, int | None]:
    body, length = render_response(requested, model, version, outputs)
    return (body if encoding is None else compress(body, encoding)), length
