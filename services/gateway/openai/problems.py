"""Errors in OpenAI's form, from which its clients raise their own exceptions. Pure.

The table of codes is that of platform.openai.com/docs/guides/error-codes, where there is one for the case. All other
errors keep Charonia's codes.
"""

import re
from http import HTTPStatus

import msgspec

from services.gateway.http.problems import FieldError, Problem, shorten
from services.gateway.jobs.idempotency.keys import IDEMPOTENCY_KEY

PREFIX = "/openai/v1"
NO_RETRY = {"x-should-retry": "false"}  # OpenAI's clients obey it; otherwise they repeat after 408, 409, 429 and 5xx
CODES = {
    "unauthorized": "invalid_api_key",
    "rate_limited": "rate_limit_exceeded",
    "invalid_request": "invalid_value",
}
STEP = re.compile(r"/([^/]*)")
UNKNOWN = ("unknown field", "unknown parameter")


class ErrorBody(msgspec.Struct, frozen=True):
    """What is wrong."""

    message: str
    """What is wrong and what to do, for people. It may change."""
    type: str
    """`invalid_request_error`, `requests` (a limit), or `server_error`."""
    param: str | None
    """The parameter that is wrong, such as `messages[0].content`; null if none is to blame."""
    code: str
    """A stable error code. The reference lists the codes."""


class OpenAIError(msgspec.Struct, frozen=True):
    """An error in OpenAI's API."""

    error: ErrorBody
    """What is wrong."""


def unsupported(*errors: FieldError) -> Problem:
    """Return the problem (400) of parameters that a model or this API cannot honour; the first gives `param`."""
    errors = tuple(map(shorten, errors))
    text = "; ".join(f"{name_param(each.pointer)}: {each.detail}" for each in errors[:3])
    return Problem(HTTPStatus.BAD_REQUEST, "unsupported_parameter", text, errors=errors)


def erased(job_id: str) -> Problem:
    """Return the problem of a request that is repeated after its job was erased."""
    text = f"the answer was erased with {job_id}; to ask again, send the request with a new {IDEMPOTENCY_KEY}"
    return Problem(HTTPStatus.GONE, "erased", text, headers=NO_RETRY)


def unreadable(error: Exception) -> Problem:
    """Return the problem of a model whose outputs are not those of its kind."""
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "unreadable_output", f"{error}; ask your operator")


def shape_error(problem: Problem) -> tuple[HTTPStatus, OpenAIError]:
    """Return the status and the body of a problem.

    An invalid field or parameter is 400, as OpenAI has it. A 422 remains for an Idempotency-Key, such as one that
    another request has used.
    """
    status, code = problem.status, CODES.get(problem.code, problem.code)
    first = problem.errors[0] if problem.errors else None
    if status is HTTPStatus.UNPROCESSABLE_ENTITY and (first is None or first.pointer != IDEMPOTENCY_KEY):
        status = HTTPStatus.BAD_REQUEST
    if first is not None and first.detail.startswith(UNKNOWN):
        code = "unknown_parameter"
    return status, OpenAIError(
        ErrorBody(describe(problem), name_type(status), name_param(first.pointer) if first else None, code)
    )


def describe(problem: Problem) -> str:
    """Return the text of a problem, with OpenAI's names of fields."""
    if not problem.errors or problem.code == "unsupported_parameter":
        return problem.detail
    errors = [(name_param(each.pointer), each.detail) for each in problem.errors[:3]]
    return "; ".join(f"{param}: {detail}" if param else detail for param, detail in errors)


def name_type(status: HTTPStatus) -> str:
    if status is HTTPStatus.TOO_MANY_REQUESTS:
        return "requests"
    return "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"


def name_param(pointer: str) -> str | None:
    """Return a JSON pointer, or the name of a header or parameter, as OpenAI writes it: `messages[0].content`."""
    if not pointer.startswith("/"):
        return pointer or None
    steps = [step.replace("~1", "/").replace("~0", "~") for step in STEP.findall(pointer)]
    return "".join(f"[{step}]" if step.isdecimal() else f".{step}" for step in steps).removeprefix(".")
