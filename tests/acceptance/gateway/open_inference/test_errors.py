"""Triton's clients get errors in Triton's format."""

import gzip
from typing import Any

import httpx
import numpy as np
import pytest

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.api.triton_client import (
    InferenceServer,
    echo_input,
    gateway_and_triton,
    make_arrays,
    make_tensor,
    mirror_inputs,
    request_outputs,
    text_input,
)

ECHO = "/v2/models/echo/infer"

MISTAKES: dict[str, tuple[str, list[Any], dict[str, Any], str]] = {
    "an unknown model": ("nope", [echo_input(1)], {}, "Request for unknown model: 'nope' is not found"),
    "an unknown version": (
        "echo",
        [echo_input(1)],
        {"model_version": "7"},
        "Request for unknown model: 'echo' version 7 is not found",
    ),
    "an unknown input": (
        "echo",
        [make_tensor("z", np.ones((1, 1), np.float32))],
        {},
        "/inputs/0: the model has no input 'z'; it has 'x' (FP32 [-1, -1])",
    ),
    "no input": ("echo", [], {}, "/inputs: input 'x' (FP32 [-1, -1]) is missing"),
    "a wrong shape": (
        "echo",
        [make_tensor("x", np.ones(2, np.float32))],
        {},
        "/inputs/0/shape: expected shape [-1, -1] (-1 is any size), got [2]",
    ),
    "a wrong datatype": (
        "echo",
        [make_tensor("x", np.ones((1, 1), np.int32))],
        {},
        "/inputs/0/datatype: expected FP32, got INT32",
    ),
    "a batch of none": (
        "echo",
        [make_tensor("x", np.ones((0, 1), np.float32))],
        {},
        "/inputs: the batch has 0 items; the model accepts 1 to 64",
    ),
    "an unknown output": (
        "echo",
        [echo_input(1)],
        {"outputs": request_outputs({"nope": True})},
        "unexpected inference output 'nope' for model 'echo'",
    ),
    "input that the model refuses": ("faulty", [text_input("mode", "invalid")], {}, "INVALID_ARG: invalid as asked"),
    "a streaming model": (
        "tokens",
        [text_input("text", "a")],
        {},
        "HTTP end point doesn't support models with decoupled transaction policy",
    ),
}


@pytest.mark.parametrize(("model", "inputs", "options", "expected"), MISTAKES.values(), ids=MISTAKES.keys())
async def test_mistake_gets_the_status_of_triton(
    stack: Stack, model: str, inputs: list[Any], options: dict[str, Any], expected: str
) -> None:
    gateway, triton = gateway_and_triton(stack)
    status, message = await gateway.infer_error(model, inputs, **options)
    assert (status, message[: len(expected)]) == ((await triton.infer_error(model, inputs, **options))[0], expected)


async def test_features_that_need_a_local_server_are_refused(stack: Stack) -> None:
    gateway, _ = gateway_and_triton(stack)
    shared = make_tensor("x", np.ones((1, 1), np.float32)).set_shared_memory("region", 4)
    status, message = await gateway.infer_error("echo", [shared])
    assert (status, message) == ("400", "shared memory is not supported: send input 'x' over HTTP")
    status, message = await gateway.infer_error("echo", [echo_input(1)], sequence_id=5, sequence_start=True)
    assert (status, message[:27]) == ("400", "sequences are not supported")
    status, message = await gateway.infer_error(
        "mirror", mirror_inputs(make_arrays(texts=False)), outputs=request_outputs({"bytes": False})
    )
    assert (status, message) == ("400", "output 'bytes' is not UTF-8: request it with binary_data")


async def test_invalid_output_of_a_model_is_a_server_error(stack: Stack) -> None:
    gateway, _ = gateway_and_triton(stack)
    assert await gateway.infer_error("faulty", [text_input("mode", "missing_output")]) == (
        "500",
        "the model did not return its output 'result'",
    )


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("POST", ECHO, 401, "the API key is missing; send it as 'Authorization: Bearer <key>'"),
        ("GET", "/v2/models/echo", 401, "the API key is missing; send it as 'Authorization: Bearer <key>'"),
        ("GET", "/v2/models/echo/config", 401, "the API key is missing; send it as 'Authorization: Bearer <key>'"),
        ("GET", "/v2/models/echo/ready", 401, "the API key is missing; send it as 'Authorization: Bearer <key>'"),
        ("GET", "/v2/nothing", 404, "there is no path /v2/nothing; /docs lists all paths"),
        ("GET", ECHO, 405, "GET is not possible here; use POST"),
    ],
)
async def test_every_error_has_the_format_of_triton(
    stack: Stack, method: str, path: str, status: int, message: str
) -> None:
    async with httpx.AsyncClient(base_url=stack.url, timeout=30) as http:
        response = await http.request(method, path)
    assert (response.status_code, response.json()) == (status, {"error": message})
    assert response.headers["content-type"] == "application/json"


async def test_body_limit_holds_with_and_without_compression(stack: Stack, api: Api) -> None:
    limit = 16 * 1024 * 1024
    large = b" " * (limit + 1)
    for content, headers in ((large, {}), (gzip.compress(large), {"Content-Encoding": "gzip"})):
        response = await api.http.post(ECHO, content=content, headers=headers)
        expected = {"error": f"the body is over the limit of {limit} bytes; send less at a time"}
        assert (response.status_code, response.json()) == (413, expected)
    unknown = await api.http.post(ECHO, content=b"{}", headers={"Content-Encoding": "br"})
    assert (unknown.status_code, unknown.json()["error"][:37]) == (415, "the body's Content-Encoding is 'br'; ")


async def test_unknown_key_is_refused(stack: Stack) -> None:
    gateway = InferenceServer(stack.settings.gateway_port, {"Authorization": "Bearer ch_none"})
    status, text = await gateway.infer_error("echo", [echo_input(1)])
    assert (status, text.partition(";")[0]) == ("401", "this API key is unknown or was revoked")
