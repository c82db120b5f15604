"""Who talks to Triton over HTTP talks to the gateway in the same way, and gets the same."""

import gzip
import json
import zlib
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http.aio as triton_aio

from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.samples import IMAGE, LINES
from tests.acceptance.triton_client import (
    HALVES,
    KEY,
    MIRROR,
    assert_equal,
    both,
    fill,
    reflect,
    tensor,
    want,
    x,
)

MODELS = ["echo", "faulty", "mirror", "ocr", "ocr_stream", "tokens", "work", "work_small"]
ECHO = "/v2/models/echo/infer"
X = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
LARGE = 1_000_000  # elements


@pytest.mark.parametrize("raw_in", [True, False], ids=["raw", "JSON"])
@pytest.mark.parametrize("raw_out", [None, True, False], ids=["to default", "to raw", "to JSON"])
async def test_every_datatype_comes_back_as_from_triton(stack: Stack, raw_in: bool, raw_out: bool | None) -> None:
    arrays = fill(texts=not raw_in or raw_out is False)
    outputs = None if raw_out is None else want({name: raw_out or name in HALVES for name in MIRROR})
    gateway, triton = both(stack)
    ours = await gateway.infer("mirror", reflect(arrays, binary=raw_in), outputs=outputs)
    theirs = await triton.infer("mirror", reflect(arrays, binary=raw_in), outputs=outputs)
    if raw_out is not False:
        assert_equal(ours, arrays)
    for name in MIRROR:
        assert_equal(ours, {name: theirs.as_numpy(name)})
        assert describe(ours, name) == describe(theirs, name)


def describe(result: Any, name: str) -> Any:
    """The output without its data, which has NaN among it."""
    return {key: value for key, value in result.get_output(name).items() if key != "data"}


async def test_tensors_without_elements_keep_their_shape(stack: Stack) -> None:
    arrays = {name: np.empty((0, 3), dtype) for name, dtype in MIRROR.items()}
    gateway, triton = both(stack)
    for outputs in (None, want({name: False for name in MIRROR if name not in HALVES})):
        ours = await gateway.infer("mirror", reflect(arrays), outputs=outputs)
        theirs = await triton.infer("mirror", reflect(arrays), outputs=outputs)
        for output in theirs.get_response()["outputs"]:
            assert_equal(ours, {output["name"]: theirs.as_numpy(output["name"])})


@pytest.mark.parametrize("compression", [None, "gzip"])
async def test_large_tensors_come_back_whole(stack: Stack, compression: str | None) -> None:
    array = np.random.default_rng(5).standard_normal((1, LARGE), np.float32)
    gateway, _ = both(stack)
    packing = {"request_compression_algorithm": compression, "response_compression_algorithm": compression}
    ours = await gateway.infer("echo", [tensor("x", array)], **packing)
    assert_equal(ours, {"y": array + array})


@pytest.mark.parametrize(("name", "undo"), [("gzip", gzip.decompress), ("deflate", zlib.decompress)])
async def test_requests_and_answers_are_packed_where_the_client_says_so(stack: Stack, name: str, undo: Any) -> None:
    gateway, triton = both(stack)
    packing = {"request_compression_algorithm": name, "response_compression_algorithm": name}
    for server in (gateway, triton):
        assert_equal(await server.infer("echo", [x(1, 2)], **packing), {"y": np.array([[2, 4]], np.float32)})
        async with (
            httpx.AsyncClient(base_url=f"http://{server.address}", headers=server.headers, timeout=60) as http,
            http.stream("POST", ECHO, json={"inputs": [X]}, headers={"Accept-Encoding": name}) as answer,
        ):
            packed = b"".join([chunk async for chunk in answer.aiter_raw()])
        assert answer.headers["content-encoding"] == name
        assert json.loads(undo(packed)) == {
            "model_name": "echo",
            "model_version": "1",
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [2.0, 4.0]}],
        }


async def test_only_the_outputs_that_are_asked_for_come_each_as_it_is_wanted(stack: Stack) -> None:
    image = tensor("image", np.array([IMAGE], np.object_))
    gateway, triton = both(stack)
    for server in (gateway, triton):
        result = await server.infer("ocr", [image], outputs=want({"text": False, "scores": True}), request_id="page 7")
        assert result.get_response()["id"] == "page 7"
        assert {output["name"] for output in result.get_response()["outputs"]} == {"text", "scores"}
        assert [str(line) for line in result.as_numpy("text")] == LINES
        assert result.get_output("text")["data"] == LINES
        assert result.get_output("scores")["parameters"] == {"binary_data_size": 4 * len(LINES)}


async def test_several_requests_may_be_under_way(stack: Stack) -> None:
    def use(client: Any) -> list[float]:
        running = [client.async_infer("echo", [x(number)], headers=dict(KEY)) for number in range(8)]
        return [each.get_result(timeout=60).as_numpy("y").item() for each in running]

    gateway, _ = both(stack)
    assert await gateway.call(use) == [2.0 * number for number in range(8)]


async def test_the_asynchronous_client_is_served_too(stack: Stack) -> None:
    arrays = fill(texts=False)
    address = f"127.0.0.1:{stack.settings.gateway_port}"
    async with triton_aio.InferenceServerClient(address) as client:
        assert await client.is_server_ready()
        assert await client.is_model_ready("mirror", headers=dict(KEY))
        assert (await client.get_model_metadata("mirror", headers=dict(KEY)))["name"] == "mirror"
        for compression in (None, "gzip", "deflate"):
            packing = {"request_compression_algorithm": compression, "response_compression_algorithm": compression}
            result = await client.infer("mirror", reflect(arrays), headers=dict(KEY), **packing)
            assert_equal(result, arrays)
        with pytest.raises(triton_aio.InferenceServerException, match="send your API key"):
            await client.infer("echo", [x(1)])


@pytest.mark.parametrize("model", MODELS)
async def test_a_model_is_described_as_by_triton(stack: Stack, model: str) -> None:
    def use(client: Any) -> tuple[dict[str, Any], dict[str, Any], list[bool]]:
        keys = {"headers": dict(KEY)}
        versions = [client.is_model_ready(model, version, **keys) for version in ("", "1", "2")]
        metadata = client.get_model_metadata(model, **keys)
        assert client.get_model_metadata(model, "1", **keys) == metadata
        return metadata, client.get_model_config(model, **keys), versions

    gateway, triton = both(stack)
    (metadata, config, ready), (their_metadata, their_config, their_ready) = (
        await gateway.call(use),
        await triton.call(use),
    )
    assert metadata == their_metadata | {"platform": "unknown"}
    assert ready == their_ready == [True, True, False]
    assert (config["name"], config["platform"], config["backend"]) == (model, "unknown", "unknown")
    for name in ("max_batch_size", "input", "output"):
        assert trim(their_config[name], config[name]) == config[name]
    decoupled = their_config.get("model_transaction_policy", {"decoupled": False})
    assert config["model_transaction_policy"] == decoupled


def trim(theirs: Any, ours: Any) -> Any:
    """Of each of Triton's tensors, the fields that we know."""
    if not isinstance(theirs, list):
        return theirs
    return [{key: value for key, value in each.items() if key in ours[0]} for each in theirs]


async def test_the_server_tells_what_it_is_without_a_key(stack: Stack) -> None:
    def use(client: Any) -> tuple[bool, bool, dict[str, Any]]:
        return client.is_server_live(), client.is_server_ready(), client.get_server_metadata()

    gateway, _ = both(stack)
    live, ready, metadata = await gateway.call(use)
    assert (live, ready, metadata["name"]) == (True, True, "charonia")
    assert "binary_tensor_data" in metadata["extensions"]


async def test_a_call_is_a_job_like_any_other(api: Api) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    asked = {"inputs": [X], "parameters": {"priority": 1, "timeout": 30_000_000}}
    answer = await api.http.post(ECHO, json=asked, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    job = await api.get(answer.headers["x-charonia-job"])
    assert answer.headers["location"] == f"/v1/jobs/{job.id}"
    assert (job.status, job.model, job.priority, job.trace_id, job.metadata) == ("succeeded", "echo", "high", trace, {})
    assert job.outputs is not None
    assert job.outputs[0].data == [2.0, 4.0]
