"""Every client error gets a problem document (RFC 9457) that says what is wrong and where."""

from typing import NamedTuple

import pytest

from tests.support.api.api_client import Api

LIMIT = 16 * 1024 * 1024
X = "'x' (FP32 [-1, -1])"
CURSOR = "invalid cursor; pass the previous page's next_cursor, with the same filters"
JOB_ID = "'job_nonsense' is not the id of a job; one looks like job_01h455vb4pex5vsknk084sn02q"
KNOWN = "'echo', 'excerpt', 'faulty', 'mirror', 'ocr', 'ocr_stream', 'tokens', 'words', 'work', 'work_small'"


class Mistake(NamedTuple):
    """`errors` are (pointer, detail)."""

    body: str
    status: int
    title: str
    code: str
    detail: str
    errors: tuple[tuple[str, str], ...] = ()


def invalid(body: str, *errors: tuple[str, str]) -> Mistake:
    detail = "; ".join(f"{pointer}: {text}" for pointer, text in errors)
    return Mistake(body, 422, "Unprocessable Entity", "invalid_request", detail, errors)


MISTAKES = {
    "malformed": Mistake(
        '{"model" "echo"}',
        400,
        "Bad Request",
        "malformed_json",
        'the body is not JSON: line 1, column 10, at `"echo"}`: a name needs a colon behind it',
    ),
    "unknown field": invalid(
        '{"model": "echo", "inputs": {"x": [[1]]}, "prioritty": "high"}',
        ("/prioritty", "unknown field `prioritty`; did you mean `priority`?"),
    ),
    "nested unknown field": invalid(
        '{"model": "echo", "inputs": {"x": [[1]]}, "retry": {"attempts": 3}}',
        ("/retry/attempts", "unknown field `attempts`; did you mean `max_attempts`?"),
    ),
    "missing field": invalid('{"model": "echo"}', ("/inputs", "is missing; it must be an object or a list")),
    "unknown model": Mistake(
        '{"model": "nope", "inputs": {}}',
        404,
        "Not Found",
        "model_not_found",
        f"model 'nope' not found; known models: {KNOWN}",
    ),
    "unknown version": Mistake(
        '{"model": "echo", "version": "2", "inputs": {}}',
        404,
        "Not Found",
        "model_not_found",
        "model 'echo' has no version '2'; known versions: '1'",
    ),
    "wrong name": invalid(
        '{"model": "echo", "inputs": {"z": [[1]]}}',
        ("/inputs/z", f"the model has no input 'z'; it has {X}"),
        ("/inputs", f"input {X} is missing"),
    ),
    "wrong element": invalid(
        '{"model": "echo", "inputs": {"x": [[1, "2"]]}}',
        ("/inputs/x", "element 1 is '2', a string; FP32 takes numbers, without quotes"),
    ),
    "wrong datatype": invalid(
        '{"model": "echo", "inputs": [{"name": "x", "shape": [1, 1], "datatype": "INT32", "data": [1]}]}',
        ("/inputs/0/datatype", "expected FP32, got INT32"),
    ),
    "wrong shape": invalid(
        '{"model": "echo", "inputs": {"x": [[[1]]]}}',
        ("/inputs/x", "expected shape [-1, -1] (-1 is any size), got [1, 1, 1]"),
    ),
    "too little data": invalid(
        '{"model": "echo", "inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1]}]}',
        ("/inputs/0/data", "shape [1, 2] needs 2 elements, got 1 in shape [1]"),
    ),
    "a fallback that takes other inputs": invalid(
        '{"model": "echo", "inputs": {"x": [[1]]}, "fallback_model": "tokens"}',
        ("/fallback_model", "'tokens' does not accept the inputs of 'echo'"),
        ("/inputs/x", "the model has no input 'x'; it has 'text' (BYTES [1]), 'delay_ms' (INT32 [1])"),
        ("/inputs", "input 'text' (BYTES [1]) is missing"),
    ),
    "an unknown fallback": invalid(
        '{"model": "echo", "inputs": {"x": [[1]]}, "fallback_model": "nope"}',
        ("/fallback_model", f"model 'nope' not found; known models: {KNOWN}"),
    ),
    "a callback to a private address": invalid(
        '{"model": "echo", "inputs": {"x": [[1]]}, "webhook": {"url": "http://169.254.169.254/"}}',
        (
            "/webhook/url",
            "requests to 169.254.169.254 are not allowed: the address is link-local, where clouds keep their metadata",
        ),
    ),
    "too large": Mistake(
        '{"model": "' + " " * LIMIT + '"}',
        413,
        "Request Entity Too Large",
        "body_too_large",
        f"the body is over the limit of {LIMIT} bytes; send less at a time",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
async def test_problem_names_each_mistake_and_its_place(api: Api, mistake: Mistake) -> None:
    response = await api.http.post("/v1/jobs", content=mistake.body)
    document: dict[str, object] = {
        "type": f"urn:charonia:problem:{mistake.code}",
        "title": mistake.title,
        "status": mistake.status,
        "detail": mistake.detail,
        "instance": "/v1/jobs",
    }
    if mistake.errors:
        document["errors"] = [{"pointer": pointer, "detail": detail} for pointer, detail in mistake.errors]
    assert response.json() == document
    assert response.status_code == mistake.status
    assert response.headers["content-type"] == "application/problem+json"


async def test_problem_points_at_invalid_cursors_and_ids(api: Api) -> None:
    listed = await api.http.get("/v1/dead-letters", params={"cursor": "job_nonsense"})
    assert (listed.status_code, listed.json()["errors"]) == (
        422,
        [{"pointer": "cursor", "detail": CURSOR}],
    )
    replayed = await api.http.post("/v1/dead-letters/replay", json={"ids": [f"job_{'0' * 26}", "job_nonsense"]})
    assert (replayed.status_code, replayed.json()["errors"]) == (
        422,
        [{"pointer": "/ids/1", "detail": JOB_ID}],
    )


async def test_problem_names_the_path_as_a_uri(api: Api) -> None:
    response = await api.http.get("/v1/models/a:%C3%A9%20%25?limit=1")
    assert response.json()["instance"] == "/v1/models/a:%C3%A9%20%25"
