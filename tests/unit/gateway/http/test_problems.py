"""Where a body is wrong, said with a JSON pointer."""

from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, cast

import pytest
from litestar.exceptions import InternalServerException, MethodNotAllowedException

from services.gateway.http.bodies import decode_body, locate
from services.gateway.http.error_responses import DISCONNECTED, answer_http
from services.gateway.http.problems import FieldError, Problem, invalid
from services.gateway.jobs.schemas import SubmitJob


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        ("Expected `str`, got `int` - at `$.model`", "/model"),
        ("Expected `int` >= 0 - at `$.inputs[0].shape[12]`", "/inputs/0/shape/12"),
        ("Expected `object`, got `array`", ""),
        ("Expected `str`, got `int` - at `$.parameters[...]`", "/parameters"),
    ],
)
def test_a_message_of_msgspecs_becomes_a_pointer(message: str, pointer: str) -> None:
    assert locate(message) == pointer


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b'{"model": "m", "inputs": {}',
        b'{"model": "\\ud800", "inputs": {}}',
        b'{"model": "m", "inputs": {"a": NaN}}',
        b'{"model": "m", "inputs": {"a": ' + b"[" * 100_000,
    ],
)
def test_what_is_no_json_is_malformed(body: bytes) -> None:
    with pytest.raises(Problem) as caught:
        decode_body(body, SubmitJob)
    assert (caught.value.status, caught.value.code) == (HTTPStatus.BAD_REQUEST, "malformed_json")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"[]", ""),
        (b"null", ""),
        (b'{"inputs": {}}', "/model"),
        (b'{"model": 1, "inputs": {}}', "/model"),
        (b'{"model": "", "inputs": {}}', "/model"),
        (b'{"model": "a\\u0000b", "inputs": {}}', "/model"),
        (b'{"model": "m"}', "/inputs"),
        (b'{"model": "m", "inputs": 1}', "/inputs"),
        (b'{"model": "m", "inputs": {}, "modle": 1}', "/modle"),
        (b'{"model": "m", "inputs": {"a": 1e400}}', "/inputs"),
        (
            b'{"model": "m", "inputs": [{"name": "a", "shape": [-1], "datatype": "FP32", "data": 0}]}',
            "/inputs/0/shape/0",
        ),
        (
            b'{"model": "m", "inputs": [{"name": "a", "shape": [9223372036854775808], "datatype": "FP32", "data": 0}]}',
            "/inputs/0/shape/0",
        ),
        (
            b'{"model": "m", "inputs": [{"name": "a", "shape": [], "datatype": "FP31", "data": 0}]}',
            "/inputs/0/datatype",
        ),
        (b'{"model": "m", "inputs": {}, "priority": "urgent"}', "/priority"),
        (b'{"model": "m", "inputs": {}, "run_at": "2030-01-01T00:00:00"}', "/run_at"),
        (b'{"model": "m", "inputs": {}, "timeout": 0}', "/timeout"),
        (b'{"model": "m", "inputs": {}, "timeout": 0.000999}', "/timeout"),
        (b'{"model": "m", "inputs": {}, "retry": {"max_attempts": 0}}', "/retry/max_attempts"),
        (b'{"model": "m", "inputs": {}, "retry": {"attempts": 3}}', "/retry/attempts"),
        (b'{"model": "m", "inputs": {}, "webhook": {"url": ""}}', "/webhook/url"),
        (b'{"model": "m", "inputs": {}, "webhook": {"url": "https://a", "events": [1]}}', "/webhook/events/0"),
    ],
)
def test_a_wrong_field_is_pointed_at(body: bytes, pointer: str) -> None:
    with pytest.raises(Problem) as caught:
        decode_body(body, SubmitJob)
    assert caught.value.status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert [error.pointer for error in caught.value.errors] == [pointer]


def test_a_byte_order_mark_is_passed_over() -> None:
    assert decode_body(b'\xef\xbb\xbf{"model": "m", "inputs": {}, "timeout": 0.001}', SubmitJob).timeout == 0.001


def test_of_a_name_that_comes_twice_the_last_counts() -> None:
    """As docs/reference/api.md says."""
    read = decode_body(b'{"model": "a", "inputs": {"x": 1, "x": 2}, "model": "b"}', SubmitJob)
    assert (read.model, read.inputs) == ("b", {"x": 2})


def test_a_problem_shows_three_mistakes_and_carries_all() -> None:
    problem = invalid(*(FieldError(f"/{number}", "is wrong") for number in range(5)))
    assert problem.detail == "/0: is wrong; /1: is wrong; /2: is wrong"
    assert len(problem.errors) == 5


APP = SimpleNamespace(state={})
REQUEST = cast("Any", SimpleNamespace(url=SimpleNamespace(path="/v1/jobs"), scope={}, method="PUT", app=APP))


def test_a_client_that_leaves_is_no_fault_of_ours() -> None:
    assert answer_http(REQUEST, InternalServerException(DISCONNECTED)).status_code == HTTPStatus.REQUEST_TIMEOUT


def test_only_methods_are_allowed() -> None:
    error = MethodNotAllowedException(headers={"allow": "OPTIONS, GET, websocket"})
    answer = answer_http(REQUEST, error)
    assert answer.headers["Allow"] == "GET, HEAD, OPTIONS"
    assert answer.content.detail == "PUT is not possible here; use GET"
