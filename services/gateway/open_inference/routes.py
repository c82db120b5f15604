"""HTTP route of the infer call of the Open Inference Protocol."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from litestar import Request, Response, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import Parameter, PathParameter
from litestar.response import Stream
from opentelemetry.trace import get_current_span

from common import ids
from common.jobs.job import Job
from common.telemetry import tracing
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.compression import choose_encoding, compress, read_body
from services.gateway.http.limits.body_limits import find_lease
from services.gateway.http.limits.response_limits import find_response_lease
from services.gateway.http.problems import Problem
from services.gateway.jobs.outputs import load_outputs
from services.gateway.jobs.store import FoundJob
from services.gateway.open_inference.dependencies import InferenceServices, Services
from services.gateway.open_inference.operations import document, find_model, name_operation
from services.gateway.open_inference.output_files import READ_AHEAD, OutputFileReader
from services.gateway.open_inference.parse import InferCall
from services.gateway.open_inference.requests import JSON_LENGTH_HEADER, ResponseFormat
from services.gateway.open_inference.responses import InferAnswer, StoredOutput, begin_raw, render_response

JOB_HEADER = "X-Charonia-Job"
PATHS = ["/models/{model:str}/infer", "/models/{model:str}/versions/{version:str}/infer"]
ERROR_STATUSES = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.GONE,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.NOT_IMPLEMENTED,
    HTTPStatus.SERVICE_UNAVAILABLE,
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
) -> Response[Any]:
    """Run a job through the queue and return its outputs, as Triton would.

    Binary tensors and compression work as in Triton. The header `X-Charonia-Job` has the job's id.
    """
    row, requested = await submit_job(request, model, version, json_length, services)
    job_id = ids.encode(ids.Kind.JOB, row.id)
    headers = {JOB_HEADER: job_id, "Location": f"/v1/jobs/{job_id}"}
    find_lease(request.scope).release()  # the job is in the database now

    try:
        found = await services.inference.await_result(row, request.user, request.receive)
        await services.authenticator.recheck(request)
        found = await load_outputs(request, services.inference.store, found)
        return await respond(request, services, found, requested, headers)
    except Problem as problem:
        problem.headers |= headers
        raise


async def submit_job(
    request: Caller, name: str, version: str | None, json_length: str | None, services: InferenceServices
) -> tuple[Job, ResponseFormat]:
    """Commit the job of a request. The request's body is freed on return."""
    model = await find_model(services, request.user, name, version)
    if model.decoupled:
        text = "HTTP end point doesn't support models with decoupled transaction policy: use POST /v1/jobs"  # as Triton
        raise Problem(HTTPStatus.NOT_IMPLEMENTED, "unsupported", text)
    body = await read_body(request, services.max_body)
    traceparent = tracing.to_traceparent(get_current_span())
    context = await services.inference.submitter.make_context(request.user, traceparent)
    call = InferCall(name, version, json_length, model.outputs)
    job, requested = await services.inference.parse(body, call, context)
    return await services.inference.submit(job, find_lease(request.scope)), requested


async def respond(
    request: Caller,
    services: InferenceServices,
    found: FoundJob,
    requested: ResponseFormat,
    headers: dict[str, str],
) -> Response[Any]:
    """Return the outputs of a succeeded job in the requested format and encoding.

    Raw tensors in files are streamed, without a compression.
    """
    row, outputs = found.row, found.outputs or b"[]"
    files = OutputFileReader(services.objects, row.tenant_id)
    lease = find_response_lease(request.scope)
    contents = await files.read_wanted(lease, found, requested)
    encoding = choose_encoding(request.headers.get("accept-encoding"))
    size = len(outputs) + sum(map(len, contents.values()))
    parts, length = await services.workers.work(
        size, render, requested, row.model, row.version or "", outputs, contents, encoding
    )
    if length is not None:
        headers[JSON_LENGTH_HEADER] = str(length)
    media_type = "application/json" if length is None else "application/octet-stream"
    if not isinstance(parts, bytes):
        lease.shrink(sum(len(part) for part in parts if isinstance(part, bytes)) + READ_AHEAD)
        headers["Content-Length"] = str(measure(parts))
        return Stream(files.stream(parts), status_code=HTTPStatus.OK, media_type=media_type, headers=headers)
    lease.shrink(len(parts))
    if encoding is not None:
        headers["Content-Encoding"] = encoding
    return Response(parts, media_type=media_type, headers=headers)


def render(
    requested: ResponseFormat,
    model: str,
    version: str,
    outputs: bytes,
    contents: Mapping[str, bytes],
    encoding: str | None,
) -> tuple[bytes | list[bytes | StoredOutput], int | None]:
    """Return the body, or its parts if raw tensors in files are among them."""
    parts, length = render_response(requested, model, version, outputs, contents)
    if any(isinstance(part, StoredOutput) for part in parts):
        return parts, length
    body = b"".join(part for part in parts if isinstance(part, bytes))
    return (body if encoding is None else compress(body, encoding)), length


def measure(parts: Sequence[bytes | StoredOutput]) -> int:
    """Return the bytes of a body."""
    return sum(len(part) if isinstance(part, bytes) else len(begin_raw(part)) + part.size for part in parts)
