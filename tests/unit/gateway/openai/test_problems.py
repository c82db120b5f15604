"""Errors in OpenAI's form."""

from http import HTTPStatus

import pytest

from services.gateway.http.problems import FieldError, Problem, invalid, not_found
from services.gateway.openai.problems import name_param, shape_error, unsupported


@pytest.mark.parametrize(
    ("pointer", "param"),
    [
        ("/temperature", "temperature"),
        ("/messages/0/content/1", "messages[0].content[1]"),
        ("/metadata/a~1b~0", "metadata.a/b~"),
        ("Idempotency-Key", "Idempotency-Key"),
        ("", None),
    ],
)
def test_a_pointer_becomes_a_parameter(pointer: str, param: str | None) -> None:
    assert name_param(pointer) == param


@pytest.mark.parametrize(
    ("problem", "status", "kind", "code", "param"),
    [
        (invalid(FieldError("/n", "is wrong")), 400, "invalid_request_error", "invalid_value", "n"),
        (invalid(FieldError("/nn", "unknown field `nn`")), 400, "invalid_request_error", "unknown_parameter", "nn"),
        (invalid(FieldError("x", "unknown parameter `x`")), 400, "invalid_request_error", "unknown_parameter", "x"),
        (invalid(FieldError("", "is wrong")), 400, "invalid_request_error", "invalid_value", None),
        (invalid(FieldError("Idempotency-Key", "x")), 422, "invalid_request_error", "invalid_value", "Idempotency-Key"),
        (unsupported(FieldError("/tools", "no")), 400, "invalid_request_error", "unsupported_parameter", "tools"),
        (Problem(HTTPStatus.UNAUTHORIZED, "unauthorized", "no"), 401, "invalid_request_error", "invalid_api_key", None),
        (Problem(HTTPStatus.TOO_MANY_REQUESTS, "rate_limited", "no"), 429, "requests", "rate_limit_exceeded", None),
        (Problem(HTTPStatus.TOO_MANY_REQUESTS, "queue_full", "no"), 429, "requests", "queue_full", None),
        (not_found("job"), 404, "invalid_request_error", "not_found", None),
        (Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "no"), 503, "server_error", "unavailable", None),
    ],
)
def test_a_problem_has_openais_status_type_code_and_param(
    problem: Problem, status: int, kind: str, code: str, param: str | None
) -> None:
    found, body = shape_error(problem)
    assert (found, body.error.type, body.error.code, body.error.param) == (status, kind, code, param)


def test_the_message_names_parameters_as_openai_does() -> None:
    problem = invalid(FieldError("/messages/0/role", "is wrong"), FieldError("", "so is this"))
    assert shape_error(problem)[1].error.message == "messages[0].role: is wrong; so is this"
    assert shape_error(unsupported(FieldError("/stop/1", "no")))[1].error.message == "stop[1]: no"
