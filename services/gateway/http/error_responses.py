"""Answers to failed requests: the one table from exceptions to HTTP."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from litestar import Request, Response
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException, InternalServerException, ValidationException
from litestar.routes import HTTPRoute

from common.errors import SecretUnreadable, Unavailable
from common.telemetry.logs import Log
from common.token_bucket import TokenBucket
from services.gateway.http.error_shapes import PROTOCOL_SHAPES, STATE, find_shape
from services.gateway.http.methods import list_methods
from services.gateway.http.parameters import list_aliases
from services.gateway.http.problems import (
    LATER,
    MAX_TEXT,
    MEDIA_TYPE,
    FieldError,
    Problem,
    ProblemBody,
    invalid,
    name_type,
    quote_path,
)
from services.gateway.http.telemetry import identify_caller
from services.gateway.http.validation.field_errors import find_errors, read_type
from services.gateway.http.validation.json_syntax import EMPTY_BODY
from services.gateway.http.validation.suggestions import suggest_path

DISCONNECTED = "client disconnected prematurely"  # Litestar's text
REFUSALS_PER_SECOND = 20.0  # that are logged

Connection = ASGIConnection[Any, Any, Any, Any]
refusals = TokenBucket(REFUSALS_PER_SECOND)
log = Log("http")


def answer_problem(request: Connection, problem: Problem) -> Response[Any]:
    log_refusal(request, problem)
    application = request.scope.get("litestar_app")  # None: a WebSocket that no route has
    shapes = PROTOCOL_SHAPES if application is None else application.state.get(STATE, PROTOCOL_SHAPES)
    if (shape := find_shape(shapes, request.url.path)) is not None:
        status, error = shape(problem)
        return Response(error, status_code=status, headers=problem.headers)
    body = ProblemBody(
        type=name_type(problem),
        title=problem.status.phrase,
        status=problem.status,
        detail=problem.detail,
        instance=quote_path(request.url.path),
        errors=problem.errors,
    )
    return Response(body, status_code=problem.status, media_type=MEDIA_TYPE, headers=problem.headers)


def log_refusal(request: Connection, problem: Problem) -> None:
    """Log a refused request, but not all of them: a client may be in a loop."""
    if refusals.acquire():
        scope = request.scope
        what = {"method": scope.get("method"), "route": scope.get("path_template"), "status": int(problem.status)}
        log.info("request.refused", **what, code=problem.code, **identify_caller(request))


def answer_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """Answer Litestar's own errors: unknown path, wrong method, body over the limit, bad parameter."""
    status = HTTPStatus(error.status_code)
    if isinstance(error, ValidationException):
        if any(each.get("key") == "data" for each in extras(error)):  # Litestar skips the decoder for an empty body
            return answer_problem(request, Problem(HTTPStatus.BAD_REQUEST, "malformed_json", EMPTY_BODY))
        return answer_problem(request, invalid(*explain_parameters(request, error)))
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        limit = request.route_handler.resolve_request_max_body_size()
        text = f"the body is over the limit of {limit} bytes; send less at a time"
        # Keep the connection: closing it with unread data would reset it, and few clients would see this answer.
        return answer_problem(request, Problem(status, "body_too_large", text))
    if isinstance(error, InternalServerException) and error.detail == DISCONNECTED:
        text = "the client disconnected before its body arrived"  # nobody reads it, but it is counted
        return answer_problem(request, Problem(HTTPStatus.REQUEST_TIMEOUT, "client_gone", text))
    headers = dict(error.headers or {})
    if allowed := headers.pop("allow", None):  # Litestar counts a WebSocket's path as a method
        headers["Allow"] = list_methods(name for name in allowed.split(", ") if name.isupper())
    code = status.phrase.lower().replace(" ", "_").replace("-", "_")
    return answer_problem(request, Problem(status, code, explain_status(request, status, headers), headers=headers))


def explain_parameters(request: Request[Any, Any, Any], error: ValidationException) -> list[FieldError]:
    """Return what is wrong with the parameters of a call, by the types that its handler takes."""
    types = request.route_handler.signature_model.__annotations__
    aliases = list_aliases(request.route_handler, frozenset(request.path_params))
    found = []
    for argument in [str(each.get("key", "")) for each in extras(error)]:
        name = aliases.get(argument, argument)
        value, kind = request.query_params.get(name), types.get(argument)
        errors = find_errors(value, read_type(kind), name, is_text=True) if kind and value is not None else iter(())
        found.append(next(errors, FieldError(name, "is missing or wrong; see /docs")))
    return found or [FieldError("", "a parameter is missing or wrong; see /docs")]


def explain_status(request: Request[Any, Any, Any], status: HTTPStatus, headers: Mapping[str, str]) -> str:
    """Return what to do about an error that Litestar found."""
    match status:
        case HTTPStatus.NOT_FOUND:
            return explain_path(request)
        case HTTPStatus.METHOD_NOT_ALLOWED:
            usable = [name for name in headers.get("Allow", "").split(", ") if name not in ("HEAD", "OPTIONS")]
            return f"{request.method} is not possible here; use {' or '.join(usable)}"
        case _:
            return f"{status.phrase.lower()}; see /docs for what this API takes"


def explain_path(request: Request[Any, Any, Any]) -> str:
    """Return that there is no such path, and the one that was probably meant."""
    path = request.url.path
    templates = sorted(route.path_format for route in request.app.routes if isinstance(route, HTTPRoute))
    meant = suggest_path(path, [each for each in templates if not each.startswith("/docs/")])
    text = f"there is no path {path[:MAX_TEXT]}"
    return f"{text}; did you mean {meant}?" if meant else f"{text}; /docs lists all paths"


def extras(error: ValidationException) -> list[dict[str, Any]]:
    return error.extra if isinstance(error.extra, list) else []


def answer_unavailable(request: Connection, error: Unavailable) -> Response[Any]:
    log.warning("request.unavailable", path=request.url.path, error=error)
    text = "a dependency does not answer or is overloaded; try again later"
    return answer_problem(request, Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers=LATER))


def answer_unreadable(request: Connection, error: SecretUnreadable) -> Response[Any]:
    log.error("request.secret_unreadable", path=request.url.path, error=error)
    text = (
        "the database has a secret that no key of CHARONIA_ENCRYPTION_KEYS decrypts; your operator must add the key "
        "that encrypted it"
    )
    return answer_problem(request, Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "secret_unreadable", text))


def answer_bug(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    log.exception("request.broke", path=request.url.path, error=repr(error))
    text = "internal error in Charonia; see its log"
    return answer_problem(request, Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", text))


HANDLERS: dict[Any, Any] = {
    Problem: answer_problem,
    HTTPException: answer_http,
    Unavailable: answer_unavailable,
    SecretUnreadable: answer_unreadable,
    Exception: answer_bug,
}
