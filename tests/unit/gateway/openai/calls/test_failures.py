"""What clients read of a request that a model refuses."""

from http import HTTPStatus

import pytest

from services.gateway.http.problems import Problem
from services.gateway.openai.calls.failures import read_refusal, refine
from services.gateway.openai.calls.record import Endpoint
from services.gateway.openai.problems import ErrorBody, shape_error


def show(endpoint: str, message: str, code: str = "invalid_input") -> ErrorBody:
    status, body = shape_error(refine(Problem(HTTPStatus.BAD_REQUEST, code, message), endpoint))
    assert status is HTTPStatus.BAD_REQUEST
    return body.error


@pytest.mark.parametrize(
    ("endpoint", "message", "param", "text"),
    [
        (Endpoint.CHAT, "INVALID_ARG: stop: is too long", "stop", "stop: is too long"),
        (Endpoint.CHAT, "UNSUPPORTED: tools: no", "tools", "tools: no"),
        (Endpoint.CHAT, "in ensemble 'chain', INVALID_ARG: seed: no", "seed", "seed: no"),
        (Endpoint.CHAT, "temperature: is too high", "temperature", "temperature: is too high"),
        (
            Endpoint.CHAT,
            "INVALID_ARGUMENT: messages[0].content: is empty",
            "messages[0].content",
            "messages[0].content: is empty",
        ),
        (Endpoint.CHAT, "INVALID_ARG: refused", None, "refused"),
        (Endpoint.CHAT, "INVALID_ARG: TypeError: no", None, "TypeError: no"),  # no field of a request
        (Endpoint.CHAT, "INVALID_ARG", None, "INVALID_ARG"),
        (Endpoint.CHAT, "it says INVALID_ARG: stop: no", None, "it says INVALID_ARG: stop: no"),
        (Endpoint.COMPLETIONS, "INVALID_ARG: prompt: no", "prompt", "prompt: no"),
        (Endpoint.EMBEDDINGS, "INVALID_ARG: text: is too long", "input", "input: is too long"),
        (Endpoint.RESPONSES, "INVALID_ARG: messages[3].content: no", "input", "input: no"),
        (Endpoint.RESPONSES, "INVALID_ARG: max_tokens: no", "max_output_tokens", "max_output_tokens: no"),
        (Endpoint.RESPONSES, "INVALID_ARG: reasoning_effort: no", "reasoning.effort", "reasoning.effort: no"),
        ("/v1/later", "INVALID_ARG: stop: no", None, "stop: no"),
    ],
)
def test_a_refusal_has_the_parameter_and_no_code_of_triton(
    endpoint: str, message: str, param: str | None, text: str
) -> None:
    error = show(endpoint, message)
    assert (error.param, error.message, error.code) == (param, text, "invalid_input")
    assert read_refusal(endpoint, message).text == text


@pytest.mark.parametrize(
    ("message", "param", "text"),
    [
        ("INVALID_ARG: context_length_exceeded: messages: has 9 tokens", "messages", "messages: has 9 tokens"),
        ("INVALID_ARG: context_length_exceeded: 9 tokens are too many", None, "9 tokens are too many"),
    ],
)
def test_a_model_says_that_a_request_is_too_long(message: str, param: str | None, text: str) -> None:
    error = show(Endpoint.CHAT, message)
    assert (error.code, error.param, error.message) == ("context_length_exceeded", param, text)


def test_what_is_no_refusal_stays_as_it_is() -> None:
    failed = Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "inference_failed", "INVALID_ARG: stop: no")
    assert refine(failed, Endpoint.CHAT) is failed
