"""Triton's HTTP clients work with the gateway and get the same results."""

import gzip
import json
import zlib
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http.aio as triton_aio

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import IMAGE, LINES
from tests.support.api.triton_client import (
    KEY,
    MIRROR_DTYPES,
    RAW_ONLY,
    assert_equal,
    echo_input,
    gateway_and_triton,
    make_arrays,
    make_tensor,
    mirror_inputs,
    request_outputs,
)
from tests.support.waiting import eventually

MODELS = ["echo", "excerpt", "faulty", "mirror", "ocr", "ocr_stream", "tokens", "words", "work", "work_small"]
ECHO = "/v2/models/echo/infer"
X = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
LARGE = 1_000_000  # elements


@pytest.mark.parametrize("raw_in", [True, False], ids=["raw", "JSON"])
@pytest.mark.parametrize("raw_out", [None, True, False], ids=["to default", "to raw", "to JSON"])
async def test_every_datatype_is_returned_as_by_triton(stack: Stack, raw_in: bool, raw_out: bool | None) -> None:
    arrays = make_arrays(texts=not raw_in or raw_out is False)
    outputs = None
    if raw_out is not None:
        outputs = request_outputs({name: raw_out or name in RAW_ONLY for name in MIRROR_DTYPES})
    gateway, triton = gateway_and_triton(stack)
    ours = await gateway.infer("mirror", mirror_inputs(arrays, binary=raw_in), outputs=outputs)
    theirs = await triton.infer("mirror", mirror_inputs(arrays, binary=raw_in), outputs=outputs)
    if raw_out is not False:
        assert_equal(ours, arrays)
    for name in MIRROR_DTYPES:
        assert_equal(ours, {name: theirs.as_numpy(name)})
        assert describe_output(ours, name) == describe_output(theirs, name)


def describe_output(result: Any, name: str) -> Any:
    """Return the output without its data, which contains NaN."""
    return {key: value for key, value in result.get_output(name).items() if key != "data"}


async def test_tensors_without_elements_keep_their_shape(stack: Stack) -> None:
    arrays = {name: np.empty((0, 3), dtype) for name, dtype in MIRROR_DTYPES.items()}
    gateway, triton = gateway_and_triton(stack)
    for outputs in (None, request_outputs({name: False for name in MIRROR_DTYPES if name not in RAW_ONLY})):
        ours = await gateway.infer("mirror", mirror_inputs(arrays), outputs=outputs)
        theirs = await triton.infer("mirror", mirror_inputs(arrays), outputs=outputs)
        for output in theirs.get_response()["outputs"]:
            assert_equal(ours, {output["name"]: theirs.as_numpy(output["name"])})


@pytest.mark.parametrize("compression", [None, "gzip"])
async def test_large_tensors_are_returned_completely(stack: Stack, compression: str | None) -> None:
    array = np.random.default_rng(5).standard_normal((1, LARGE), np.float32)
    gateway, _ = gateway_and_triton(stack)
    options = {"request_compression_algorithm": compression, "response_compression_algorithm": compression}
    ours = await gateway.infer("echo", [make_tensor("x", array)], **options)
    assert_equal(ours, {"y": array + array})


@pytest.mark.parametrize(("name", "decompress"), [("gzip", gzip.decompress), ("deflate", zlib.decompress)])
async def test_compression_follows_the_headers_of_the_client(stack: Stack, name: str, decompress: Any) -> None:
    gateway, triton = gateway_and_triton(stack)
    options = {"request_compression_algorithm": name, "response_compression_algorithm": name}
    for server in (gateway, triton):
        assert_equal(await server.infer("echo", [echo_input(1, 2)], **options), {"y": np.array([[2, 4]], np.float32)})
        async with (
            httpx.AsyncClient(base_url=f"http://{server.address}", headers=server.headers, timeout=60) as http,
            http.stream("POST", ECHO, json={"inputs": [X]}, headers={"Accept-Encoding": name}) as response,
        ):
            compressed = b"".join([chunk async for chunk in response.aiter_raw()])
        assert response.headers["content-encoding"] == name
        assert json.loads(decompress(compressed)) == {
            "model_name": "echo",
            "model_version": "1",
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [2.0, 4.0]}],
        }


async def test_only_requested_outputs_are_returned_in_the_requested_form(stack: Stack) -> None:
    image = make_tensor("image", np.array([IMAGE], np.object_))
    gateway, triton = gateway_and_triton(stack)
    for server in (gateway, triton):
        result = await server.infer(
            "ocr", [image], outputs=request_outputs({"text": False, "scores": True}), request_id="page 7"
        )
        assert result.get_response()["id"] == "page 7"
        assert {output["name"] for output in result.get_response()["outputs"]} == {"text", "scores"}
        assert [str(line) for line in result.as_numpy("text")] == LINES
        assert result.get_output("text")["data"] == LINES
        assert result.get_output("scores")["parameters"] == {"binary_data_size": 4 * len(LINES)}


async def test_client_can_send_several_requests_at_once(stack: Stack) -> None:
    def use(client: Any) -> list[float]:
        running = [client.async_infer("echo", [echo_input(number)], headers=dict(KEY)) for number in range(8)]
        return [each.get_result(timeout=60).as_numpy("y").item() for each in running]

    gateway, _ = gateway_and_triton(stack)
    assert await gateway.call(use) == [2.0 * number for number in range(8)]


async def test_asynchronous_client_works(stack: Stack) -> None:
    arrays = make_arrays(texts=False)
    address = f"127.0.0.1:{stack.settings.gateway_port}"
    async with triton_aio.InferenceServerClient(address) as client:
        assert await client.is_server_ready()
        assert await client.is_model_ready("mirror", headers=dict(KEY))
        assert (await client.get_model_metadata("mirror", headers=dict(KEY)))["name"] == "mirror"
        for compression in (None, "gzip", "deflate"):
            options = {
                "request_compression_algorithm": compression,
                "response_compression_algorithm": compression,
            }
            result = await client.infer("mirror", mirror_inputs(arrays), headers=dict(KEY), **options)
            assert_equal(result, arrays)
        with pytest.raises(triton_aio.InferenceServerException, match="the API key is missing"):
            await client.infer("echo", [echo_input(1)])


@pytest.mark.parametrize("model", MODELS)
async def test_model_metadata_is_that_of_triton(stack: Stack, model: str) -> None:
    def use(client: Any) -> tuple[dict[str, Any], dict[str, Any], list[bool]]:
        keys = {"headers": dict(KEY)}
        versions = [client.is_model_ready(model, version, **keys) for version in ("", "1", "2")]
        metadata = client.get_model_metadata(model, **keys)
        assert client.get_model_metadata(model, "1", **keys) == metadata
        return metadata, client.get_model_config(model, **keys), versions

    async def is_ready() -> bool:
        return bool(await gateway.call(lambda client: client.is_model_ready(model, headers=dict(KEY))))

    gateway, triton = gateway_and_triton(stack)
    await eventually(is_ready, "the gateway knows that Triton is up, which an earlier test may have stopped")
    (metadata, config, ready), (their_metadata, their_config, their_ready) = (
        await gateway.call(use),
        await triton.call(use),
    )
    assert metadata == their_metadata | {"platform": "unknown"}
    assert ready == their_ready == [True, True, False]
    assert (config["name"], config["platform"], config["backend"]) == (model, "unknown", "unknown")
    for name in ("max_batch_size", "input", "output"):
        assert keep_known_fields(their_config[name], config[name]) == config[name]
    decoupled = their_config.get("model_transaction_policy", {"decoupled": False})
    assert config["model_transaction_policy"] == decoupled


def keep_known_fields(theirs: Any, ours: Any) -> Any:
    """Return Triton's tensors with only the fields that the gateway has."""
    if not isinstance(theirs, list):
        return theirs
    return [{key: value for key, value in each.items() if key in ours[0]} for each in theirs]


async def test_server_metadata_needs_no_key(stack: Stack) -> None:
    def use(client: Any) -> tuple[bool, bool, dict[str, Any]]:
        return client.is_server_live(), client.is_server_ready(), client.get_server_metadata()

    gateway, _ = gateway_and_triton(stack)
    live, ready, metadata = await gateway.call(use)
    assert (live, ready, metadata["name"]) == (True, True, "charonia")
    assert "binary_tensor_data" in metadata["extensions"]


async def test_infer_call_is_a_normal_job(api: Api) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    request = {"inputs": [X], "parameters": {"priority": 1, "timeout": 30_000_000}}
    response = await api.http.post(ECHO, json=request, headers=headers, timeout=60)
    assert response.status_code == 200, response.text
    job = await api.get(response.headers["x-charonia-job"])
    assert response.headers["location"] == f"/v1/jobs/{job.id}"
    assert (job.status, job.model, job.priority, job.trace_id, job.metadata) == ("succeeded", "echo", "high", trace, {})
    assert job.outputs is not None
    assert job.outputs[0].data == [2.0, 4.0]
