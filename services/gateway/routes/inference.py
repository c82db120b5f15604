"""The infer call of the Open Inference Protocol: a job whose caller waits for it."""

from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from litestar import Request, Response, Router, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import Parameter, PathParameter
from opentelemetry.trace import get_current_span

from common import ids, tracing
from common.job_view import JobRow
from services.gateway.auth import check_again
from services.gateway.catalogue import Catalogue
from services.gateway.encodings import choose_encoding, pack, read_body
from services.gateway.errors import Problem
from services.gateway.inference import Inference
from services.gateway.presence import await_departure
from services.gateway.protocol import LENGTH, Wanted
from services.gateway.protocol_answer import InferAnswer, write_answer
from services.gateway.protocol_api import InferOperation, document, find_model, name_operation
from services.gateway.reading import Url
from services.gateway.scopes import Scope, needs
from services.gateway.store import Key

JOB = "X-Charonia-Job"
PATHS = ["/models/{model:str}/infer", "/models/{model:str}/versions/{version:str}/infer"]
ENDS = (
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
    operation_class=InferOperation,
    responses={200: ResponseSpec(InferAnswer, description="The outputs", generate_examples=False), **document(*ENDS)},
)
async def infer(
    request: Caller,
    model: Annotated[str, PathParameter()],
    catalogue: Catalogue,
    inference: Inference,
    version: Annotated[str | None, PathParameter()] = None,
    json_length: Annotated[
        str | None, Parameter(header=LENGTH, description="bytes of JSON, where raw tensors follow it")
    ] = None,
) -> Response[bytes]:
    """As Triton's own call, binary tensors and compression included, but through the queue.

    The header `X-Charonia-Job` names the job.
    """
    row, wanted = await begin(request, model, version, json_length, catalogue, inference)
    job_id = ids.show(ids.Kind.JOB, row.id)
    headers = {JOB: job_id, "Location": f"/v1/jobs/{job_id}"}
    request.app.state.budget.release(request.scope)  # the body is a row by now

    try:
        found = await inference.finish(row, request.user, partial(await_departure, request.receive))
        await check_again(request)
        version, outputs = found.row.version or "", found.outputs or b"[]"
        encoding = choose_encoding(request.headers.get("accept-encoding"))
        body, length = await inference.submitter.workers.work(
            len(outputs), write, wanted, found.row.model, version, outputs, encoding
        )
    except Problem as problem:
        problem.headers |= headers
        raise
    if encoding is not None:
        headers["Content-Encoding"] = encoding
    if length is not None:
        headers[LENGTH] = str(length)
    media_type = "application/json" if length is None else "application/octet-stream"
    return Response(body, media_type=media_type, headers=headers)


async def begin(
    request: Caller,
    name: str,
    version: str | None,
    json_length: str | None,
    catalogue: Catalogue,
    inference: Inference,
) -> tuple[JobRow, Wanted]:
    """The job, committed; what came with the request is not held longer than this."""
    model = await find_model(catalogue, name, version)
    if model.decoupled:
        text = "HTTP end point doesn't support models with decoupled transaction policy: use POST /v1/jobs"
        raise Problem(HTTPStatus.NOT_IMPLEMENTED, "unsupported", text)
    body, submitter = await read_body(request), inference.submitter
    asked = await submitter.ask(request.user.tenant_id, tracing.show(get_current_span()))
    job, wanted = await submitter.read_infer(body, Url(name, version, json_length, model.outputs), asked)
    return await inference.begin(job), wanted


def write(wanted: Wanted, model: str, version: str, outputs: bytes, encoding: str | None) -> tuple[bytes, int | None]:
    body, length = write_answer(wanted, model, version, outputs)
    return (body if encoding is None else pack(body, encoding)), length


router = Router("/", route_handlers=[infer], tags=["Open Inference Protocol"])
