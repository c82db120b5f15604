"""Every error as application/problem+json (RFC 9457), and the one table from our exceptions to HTTP."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException, InternalServerException, ValidationException
from litestar.openapi.datastructures import ResponseSpec

from common.allowance import Allowance
from common.errors import Unavailable
from common.logs import Log
from services.gateway.callers import identify_caller

MEDIA_TYPE = "application/problem+json"
PROTOCOL = "/v2"  # paths that begin so are the Open Inference Protocol's
MAX_ERRORS = 20  # in one answer
MAX_TEXT = 500
LEFT = "client disconnected prematurely"  # in Litestar's words
REFUSALS_PER_SECOND = 20.0  # that are logged
RETRY_SECONDS = 5  # what Retry-After says when a dependency is down
LATER = {"Retry-After": str(RETRY_SECONDS)}
PATH = re.compile(r" - at `\$(.*)`$")
STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
FIELD = re.compile(r"field `([^`]+)`")

Connection = ASGIConnection[Any, Any, Any, Any]
refusals = Allowance(REFUSALS_PER_SECOND)
log = Log("http")


class FieldError(msgspec.Struct, frozen=True):
    """`pointer` is a JSON pointer (RFC 6901) into the body, or the name of a header or query parameter."""

    pointer: str
    detail: str


class ProblemBody(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldError] = []


class ProtocolError(msgspec.Struct, frozen=True):
    """The same in the Open Inference Protocol."""

    error: str


class Problem(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`code` is stable: programs may rely on it as the end of `type`."""
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = list(errors)
        self.headers = dict(headers or {})

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle, which knows nothing of what comes by name."""
        return Problem, (self.status, self.code, self.detail), {"errors": self.errors, "headers": self.headers}


WHEN = {
    HTTPStatus.BAD_REQUEST: "The body is not JSON",
    HTTPStatus.UNAUTHORIZED: "No API key, or one that is not known",
    HTTPStatus.FORBIDDEN: "The key lacks the scope; a URL's signature is not ours, or has expired",
    HTTPStatus.NOT_FOUND: "There is no such thing, or it is another tenant's",
    HTTPStatus.CONFLICT: "The job is not in a state for it",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is over the limit",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not JSON by its Content-Type, or is encoded",
    HTTPStatus.UNPROCESSABLE_ENTITY: "A field or parameter is not as it should be; `errors` points to it",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests, or a full queue; see `Retry-After`",
    HTTPStatus.SERVICE_UNAVAILABLE: "A dependency is down; see `Retry-After`",
}
READING = (
    *(HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN),
    HTTPStatus.UNPROCESSABLE_ENTITY,  # a query parameter that the call does not have
    *(HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE),
)
FINDING = (*READING, HTTPStatus.NOT_FOUND)
SENDING = (
    *(*READING, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)


def document(*statuses: HTTPStatus) -> dict[int, ResponseSpec]:
    """The errors of a call, for its OpenAPI."""
    return {
        int(status): ResponseSpec(ProblemBody, description=WHEN[status], media_type=MEDIA_TYPE, generate_examples=False)
        for status in statuses
    }


def invalid(*errors: FieldError) -> Problem:
    """422 for well-formed JSON that says something wrong."""
    errors = tuple(shorten(error) for error in errors[:MAX_ERRORS])
    text = "; ".join(f"{error.pointer or 'the body'}: {error.detail}" for error in errors[:3])
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_request", text, errors=errors)


def shorten(error: FieldError) -> FieldError:
    """Names come from the client and may be as long as its body."""
    return FieldError(error.pointer[:MAX_TEXT], error.detail[:MAX_TEXT])


def not_found(what: str) -> Problem:
    return Problem(HTTPStatus.NOT_FOUND, "not_found", f"there is no such {what}")


def conflict(detail: str) -> Problem:
    return Problem(HTTPStatus.CONFLICT, "conflict", detail)


def name_type(problem: Problem) -> str:
    return f"urn:charonia:problem:{problem.code}"


def decode_body(body: bytes | str, kind: Any) -> Any:
    """The body as the type that a call takes; raises Problem: 400 for bad JSON, 422 with a pointer for a bad field.

    A byte order mark is passed over, as RFC 8259 allows.
    """
    if isinstance(body, bytes):
        body = body.removeprefix(BOM_UTF8)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise invalid(locate(str(error))) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(HTTPStatus.BAD_REQUEST, "malformed_json", f"the body is not JSON: {error}") from error


def locate(message: str) -> FieldError:
    """The pointer and the sentence in an error of msgspec's."""
    found = PATH.search(message)
    text = message[: found.start()] if found else message
    steps = [name or index for name, index in STEP.findall(found.group(1))] if found else []
    if "..." in steps:  # a key that msgspec does not tell: point at the object
        steps = steps[: steps.index("...")]
    field = FIELD.search(text)
    if field and ("unknown field" in text or "missing required field" in text):
        steps.append(field.group(1))
    pointer = "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
    return FieldError(pointer, text)


def answer_problem(request: Connection, problem: Problem) -> Response[Any]:
    report(request, problem)
    if request.url.path.startswith(PROTOCOL):
        return answer_protocol(problem)
    body = ProblemBody(
        type=name_type(problem),
        title=problem.status.phrase,
        status=problem.status,
        detail=problem.detail,
        instance=request.url.path,
        errors=problem.errors,
    )
    return Response(body, status_code=problem.status, media_type=MEDIA_TYPE, headers=problem.headers)


def report(request: Connection, problem: Problem) -> None:
    """One line for a request that is refused, but not for any number of them: a client may be in a loop."""
    if refusals.take():
        scope = request.scope
        what = {"method": scope.get("method"), "route": scope.get("path_template"), "status": int(problem.status)}
        log.info("request.refused", **what, code=problem.code, **identify_caller(request))


def answer_protocol(problem: Problem) -> Response[ProtocolError]:
    """As Triton does, whose clients show nothing but the text."""
    status = problem.status
    if status is HTTPStatus.UNPROCESSABLE_ENTITY:
        status = HTTPStatus.BAD_REQUEST
    return Response(ProtocolError(problem.detail), status_code=status, headers=problem.headers)


def answer_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """Litestar's own errors: unknown path, wrong method, body over the limit, bad parameter."""
    status = HTTPStatus(error.status_code)
    if isinstance(error, ValidationException):
        if any(each.get("key") == "data" for each in extras(error)):  # Litestar asks for no body where there is none
            return answer_problem(request, Problem(HTTPStatus.BAD_REQUEST, "malformed_json", "the body is empty"))
        fields = [FieldError(str(each.get("key", "")), str(each.get("message", ""))) for each in extras(error)]
        return answer_problem(request, invalid(*fields))
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        limit = request.route_handler.resolve_request_max_body_size()
        text = f"the body is over the limit of {limit} bytes"
        # The connection stays: closed with data unread it would be reset, and few clients would see this answer.
        return answer_problem(request, Problem(status, "body_too_large", text))
    if isinstance(error, InternalServerException) and error.detail == LEFT:
        text = "the client left before its body had come"  # nobody reads it, but it is counted
        return answer_problem(request, Problem(HTTPStatus.REQUEST_TIMEOUT, "client_gone", text))
    headers = dict(error.headers or {})
    if allowed := headers.pop("allow", None):  # Litestar counts a WebSocket's path as a method
        headers["Allow"] = list_methods(name for name in allowed.split(", ") if name.isupper())
    code = status.phrase.lower().replace(" ", "_").replace("-", "_")
    return answer_problem(request, Problem(status, code, error.detail, headers=headers))


def list_methods(methods: Iterable[str]) -> str:
    """For an Allow header; see front.py for HEAD."""
    allowed = set(methods)
    return ", ".join(sorted(allowed | {"HEAD"} if "GET" in allowed else allowed))


def extras(error: ValidationException) -> list[dict[str, Any]]:
    return error.extra if isinstance(error.extra, list) else []


def answer_unavailable(request: Connection, error: Unavailable) -> Response[Any]:
    log.warning("request.unavailable", path=request.url.path, error=error)
    text = "a service this one depends on does not answer, or too much is waiting; try again later"
    return answer_problem(request, Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers=LATER))


def answer_bug(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    log.exception("request.broke", path=request.url.path, error=repr(error))
    text = "this is a fault of Charonia's; the log has it"
    return answer_problem(request, Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", text))


HANDLERS: dict[Any, Any] = {
    Problem: answer_problem,
    HTTPException: answer_http,
    Unavailable: answer_unavailable,
    Exception: answer_bug,
}
