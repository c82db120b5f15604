"""Errors as problem documents (RFC 9457), and how OpenAPI describes them."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
from litestar.openapi.datastructures import ResponseSpec

MEDIA_TYPE = "application/problem+json"
PROTOCOL = "/v2"  # the prefix of the Open Inference Protocol's paths
MAX_ERRORS = 20  # in one answer
MAX_TEXT = 500
RETRY_SECONDS = 5  # what Retry-After says when a dependency is down
LATER = {"Retry-After": str(RETRY_SECONDS)}


class FieldError(msgspec.Struct, frozen=True):
    """An invalid field, header or parameter."""

    pointer: str
    """A JSON pointer (RFC 6901) into the body, or the name of a header or query parameter."""
    detail: str
    """What is wrong with it."""


class ProblemBody(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An error (RFC 9457)."""

    type: str
    """`urn:charonia:problem:` and a stable error code. The reference lists the codes."""
    title: str
    """The name of the HTTP status."""
    status: int
    """The HTTP status."""
    detail: str
    """What is wrong, for people. It may change."""
    instance: str
    """The path of the request. It is empty if the headers of the request cannot be read."""
    errors: list[FieldError] = []
    """The invalid fields, at most 20; absent where no field is to blame."""


class ProtocolError(msgspec.Struct, frozen=True):
    """An error in the Open Inference Protocol."""

    error: str
    """What is wrong, for people. It may change."""


class Problem(Exception):
    """An error answer."""

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
        """Support pickle, which does not keep keyword arguments."""
        return Problem, (self.status, self.code, self.detail), {"errors": self.errors, "headers": self.headers}


DESCRIPTIONS = {
    HTTPStatus.BAD_REQUEST: "The body is not JSON",
    HTTPStatus.UNAUTHORIZED: "The API key is missing, unknown, revoked or expired",
    HTTPStatus.FORBIDDEN: "The key lacks the scope or the model, or a URL's signature is wrong or has expired",
    HTTPStatus.NOT_FOUND: "Not found, or owned by another tenant",
    HTTPStatus.CONFLICT: "`conflict`: the state of the object does not allow this",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is over the limit",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body's Content-Type is not JSON, or the body is encoded",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "The file ends before the range",
    HTTPStatus.UNPROCESSABLE_ENTITY: "A field or parameter is invalid; `errors` points to it",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests, a full queue, or no room for a file; see `Retry-After`",
    HTTPStatus.SERVICE_UNAVAILABLE: "A dependency is down; see `Retry-After`",
}
# The errors of every call; of a call that names an object; of a call with a body.
ANY_CALL = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.UNPROCESSABLE_ENTITY,  # an unknown query parameter
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
WITH_ID = (*ANY_CALL, HTTPStatus.NOT_FOUND)
WITH_BODY = (
    *ANY_CALL,
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)


def document(*statuses: HTTPStatus, conflict: str = "") -> dict[int, ResponseSpec]:
    """Describe a call's errors for its OpenAPI. `conflict` says what a 409 means, if the call has others than usual."""
    descriptions = DESCRIPTIONS | ({HTTPStatus.CONFLICT: conflict} if conflict else {})
    return {
        int(status): ResponseSpec(
            ProblemBody, description=descriptions[status], media_type=MEDIA_TYPE, generate_examples=False
        )
        for status in statuses
    }


def invalid(*errors: FieldError) -> Problem:
    """422 for well-formed JSON with invalid content."""
    errors = tuple(shorten(error) for error in errors[:MAX_ERRORS])
    text = "; ".join(f"{error.pointer}: {error.detail}" if error.pointer else error.detail for error in errors[:3])
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_request", text, errors=errors)


def shorten(error: FieldError) -> FieldError:
    """Cut texts that contain names from the client, which may be as long as its body."""
    return FieldError(error.pointer[:MAX_TEXT], error.detail[:MAX_TEXT])


def quote_path(path: str) -> str:
    """Return a decoded path as a URI has it (RFC 3986, 3.3)."""
    return quote(path, safe="/:@!$&'()*+,;=")


def escape(name: str) -> str:
    """Return a name as one step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def forbidden(detail: str) -> Problem:
    return Problem(HTTPStatus.FORBIDDEN, "forbidden", detail)


def not_found(what: str) -> Problem:
    text = f"{what} not found; it never existed, was deleted, or belongs to another tenant"
    return Problem(HTTPStatus.NOT_FOUND, "not_found", text)


def conflict(detail: str, headers: Mapping[str, str] | None = None) -> Problem:
    """409 for an object that is in the wrong state. If that ends by itself, the headers are LATER."""
    return Problem(HTTPStatus.CONFLICT, "conflict", detail, headers=headers)


def not_ready(detail: str, headers: Mapping[str, str] | None = None) -> Problem:
    """409 for what is not there yet. If it comes by itself, the headers are LATER."""
    return Problem(HTTPStatus.CONFLICT, "not_ready", detail, headers=headers)


def limit_reached(detail: str) -> Problem:
    """409 for one object too many."""
    return Problem(HTTPStatus.CONFLICT, "limit_reached", detail)


def name_type(problem: Problem) -> str:
    return f"urn:charonia:problem:{problem.code}"
