"""What goes wrong is told to Triton's clients as Triton tells it."""

import gzip
from typing import Any

import httpx
import numpy as np
import pytest

from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.triton_client import Server, both, fill, reflect, tensor, text, want, x

ECHO = "/v2/models/echo/infer"

MISTAKES: dict[str, tuple[str, list[Any], dict[str, Any], str]] = {
    "an unknown model": ("nope", [x(1)], {}, "Request for unknown model: 'nope' is not found"),
    "an unknown version": (
        "echo",
        [x(1)],
        {"model_version": "7"},
        "Request for unknown model: 'echo' version 7 is not found",
    ),
    "an unknown input": (
        "echo",
        [tensor("z", np.ones((1, 1), np.float32))],
        {},
        "/inputs/0: the model has no input 'z'; it has 'x' (FP32 [-1, -1])",
    ),
    "no input": ("echo", [], {}, "/inputs: input 'x' (FP32 [-1, -1]) is missing"),
    "a wrong shape": (
        "echo",
        [tensor("x", np.ones(2, np.float32))],
        {},
        "/inputs/0/shape: expected shape [-1, -1], got [2]",
    ),
    "a wrong datatype": (
        "echo",
        [tensor("x", np.ones((1, 1), np.int32))],
        {},
        "/inputs/0/datatype: expected FP32, got INT32",
    ),
    "a batch of none": (
        "echo",
        [tensor("x", np.ones((0, 1), np.float32))],
        {},
        "/inputs: the batch has 0 items, the model takes 1 to 64",
    ),
    "an unknown output": (
        "echo",
        [x(1)],
        {"outputs": want({"nope": True})},
        "unexpected inference output 'nope' for model 'echo'",
    ),
    "input that the model refuses": ("faulty", [text("mode", "invalid")], {}, "INVALID_ARG: invalid as asked"),
    "a streaming model": (
        "tokens",
        [text("text", "a")],
        {},
        "HTTP end point doesn't support models with decoupled transaction policy",
    ),
}


@pytest.mark.parametrize(("model", "inputs", "options", "expected"), MISTAKES.values(), ids=MISTAKES.keys())
async def test_a_mistake_is_answered_with_tritons_status(
    stack: Stack, model: str, inputs: list[Any], options: dict[str, Any], expected: str
) -> None:
    gateway, triton = both(stack)
    status, said = await gateway.fail(model, inputs, **options)
    assert (status, said[: len(expected)]) == ((await triton.fail(model, inputs, **options))[0], expected)


async def test_what_only_a_server_beside_the_client_can_do_is_refused(stack: Stack) -> None:
    gateway, _ = both(stack)
    shared = tensor("x", np.ones((1, 1), np.float32)).set_shared_memory("region", 4)
    status, said = await gateway.fail("echo", [shared])
    assert (status, said) == ("400", "shared memory is not offered here: input 'x' must travel with the request")
    status, said = await gateway.fail("echo", [x(1)], sequence_id=5, sequence_start=True)
    assert (status, said[:30]) == ("400", "sequences are not offered here")
    status, said = await gateway.fail("mirror", reflect(fill(texts=False)), outputs=want({"bytes": False}))
    assert (status, said) == ("400", "output 'bytes' is not all UTF-8: ask for it with binary_data")


async def test_a_model_that_answers_wrongly_is_the_servers_fault(stack: Stack) -> None:
    gateway, _ = both(stack)
    assert await gateway.fail("faulty", [text("mode", "missing_output")]) == (
        "500",
        "the model did not answer its output 'result'",
    )


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("POST", ECHO, 401, "send your API key as 'Authorization: Bearer <key>'"),
        ("GET", "/v2/models/echo", 401, "send your API key as 'Authorization: Bearer <key>'"),
        ("GET", "/v2/models/echo/config", 401, "send your API key as 'Authorization: Bearer <key>'"),
        ("GET", "/v2/models/echo/ready", 401, "send your API key as 'Authorization: Bearer <key>'"),
        ("GET", "/v2/nothing", 404, "Not Found"),
        ("GET", ECHO, 405, "Method Not Allowed"),
    ],
)
async def test_every_error_is_written_as_tritons(stack: Stack, method: str, path: str, status: int, said: str) -> None:
    async with httpx.AsyncClient(base_url=stack.url) as anybody:
        answer = await anybody.request(method, path)
    assert (answer.status_code, answer.json()) == (status, {"error": said})
    assert answer.headers["content-type"] == "application/json"


async def test_a_body_is_bounded_packed_or_not(stack: Stack, api: Api) -> None:
    limit = 16 * 1024 * 1024
    large = b" " * (limit + 1)
    for content, headers in ((large, {}), (gzip.compress(large), {"Content-Encoding": "gzip"})):
        answer = await api.http.post(ECHO, content=content, headers=headers)
        assert (answer.status_code, answer.json()) == (413, {"error": f"the body is over the limit of {limit} bytes"})
    unknown = await api.http.post(ECHO, content=b"{}", headers={"Content-Encoding": "br"})
    assert (unknown.status_code, unknown.json()["error"][:29]) == (415, "the body's encoding is 'br', ")


async def test_a_key_that_is_not_known_is_refused(stack: Stack) -> None:
    gateway = Server(stack.settings.gateway_port, {"Authorization": "Bearer ch_none"})
    assert await gateway.fail("echo", [x(1)]) == ("401", "this API key is not known, or it was revoked")
