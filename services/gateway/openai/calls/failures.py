"""Why a job has no answer, in the words of OpenAI: what a model refuses, and which parameter is to blame. Pure."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

from services.gateway.http.problems import FieldError, Problem
from services.gateway.openai.calls.record import Endpoint
from services.gateway.openai.kinds.generation import GIVEN, OTHERS
from services.gateway.openai.problems import name_param

REFUSED = ("invalid_input", "inference_refused")  # codes of jobs whose texts are those of models
# How a model says that another attempt cannot help, after what Triton puts before it: as dispatcher/triton/errors.py.
PREFIX = re.compile(
    r"(?:\[request id: [^\]]*\] |in ensemble '[^']*', )*"
    r"(?:INVALID_ARG|INVALID_ARGUMENT|OUT_OF_RANGE|FAILED_PRECONDITION|"
    r"UNSUPPORTED|UNIMPLEMENTED|NOT_FOUND|PERMISSION_DENIED)\b:?\s*"
)
TOO_LONG = "context_length_exceeded: "  # how it says that the request has too many tokens
FIELD = re.compile(r"(\w+)((?:\[\d+\]|\.\w+)*): ")
STEP = re.compile(r"\[(\d+)\]|\.(\w+)")
# Where a response has what models know by other names.
OF_RESPONSES = {
    "reasoning_effort": "/reasoning/effort",
    "response_format": "/text/format",
    "verbosity": "/text/verbosity",
}
# The parameters by the names that models know them by.
POINTERS: Mapping[str, Mapping[str, str]] = {
    Endpoint.CHAT: {name: f"/{name}" for name in (*GIVEN, *OTHERS)},
    Endpoint.COMPLETIONS: {name: f"/{name}" for name in GIVEN},
    Endpoint.EMBEDDINGS: {"text": "/input"},
    Endpoint.RESPONSES: {
        "messages": "/input",
        "max_tokens": "/max_output_tokens",
        "temperature": "/temperature",
        "top_p": "/top_p",
        **OF_RESPONSES,
    },
}


class Refusal(NamedTuple):
    """What a model says against a request. `pointer` is to the parameter that is to blame; empty if none is."""

    pointer: str
    detail: str
    is_too_long: bool

    @property
    def text(self) -> str:
        """The whole text."""
        return f"{name_param(self.pointer)}: {self.detail}" if self.pointer else self.detail


def read_refusal(endpoint: str, message: str) -> Refusal:
    """Return what the message of a model says: its text without the codes and the name that it begins with."""
    code = PREFIX.match(message)
    text = message[code.end() :] if code else message
    is_too_long, text = text.startswith(TOO_LONG), text.removeprefix(TOO_LONG)
    found = FIELD.match(text)
    pointer = POINTERS.get(endpoint, {}).get(found[1], "") if found else ""
    if found is None or not pointer:
        return Refusal("", text or message, is_too_long)
    if pointer == f"/{found[1]}":  # the items of another are not numbered as those of the model
        pointer += STEP.sub(r"/\1\2", found[2])
    return Refusal(pointer, text[found.end() :], is_too_long)


def refine(problem: Problem, endpoint: str) -> Problem:
    """Return the problem of a failed job as the client of an endpoint knows its request."""
    if problem.code not in REFUSED:
        return problem
    refusal = read_refusal(endpoint, problem.detail)
    errors = [FieldError(refusal.pointer, refusal.detail)] if refusal.pointer else []
    if refusal.is_too_long:
        return Problem(HTTPStatus.BAD_REQUEST, "context_length_exceeded", refusal.detail, errors=errors)
    return Problem(problem.status, problem.code, refusal.detail, errors=errors, headers=problem.headers)
