"""The inputs of a job can be read as it was submitted, until they are erased."""

import base64
import io
import json
import math
import struct
from collections.abc import AsyncIterator, Mapping
from typing import Literal

import numpy as np
import pytest

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api, read
from tests.support.api.api_shapes import Strict
from tests.support.api.input_files import upload_file
from tests.support.api.model_inputs import IMAGE
from tests.support.api.triton_client import MIRROR_DTYPES
from tests.support.receivers.content_server import reply, serve_contents
from tests.support.stacks.own_gateway import another_gateway

VALUES = [value / 8 for value in range(1000)]
UNKNOWN = "job_01m7ysshxnfbevq05b7h55g94z"


class Input(Strict, frozen=True, omit_defaults=True):
    name: str
    datatype: str
    shape: list[int]
    data: list[object] | None = None
    file: str | None = None
    download_url: str | None = None
    url: str | None = None
    offset: int = 0
    size: int | None = None


class JobInputs(Strict, frozen=True):
    id: str
    inputs: list[Input] | None
    inputs_omitted: Literal["erased"] | None = None


@pytest.fixture
async def frugal(stack: Stack) -> AsyncIterator[Api]:
    """A client of a gateway that keeps 1,024 bytes of a job's inputs in its row."""
    async with (
        another_gateway(stack, CHARONIA_INLINE_INPUT_BYTES="1024") as gateway,
        open_client(stack, DEVELOPMENT_KEY, gateway.url) as api,
    ):
        yield api


async def read_inputs(api: Api, job_id: str) -> JobInputs:
    return read(await api.http.get(f"/v1/jobs/{job_id}/inputs"), 200, JobInputs)


async def submit_and_read(api: Api, model: str, inputs: Mapping[str, object]) -> Input:
    """Return the only input of a new job."""
    job = await api.submit(model, inputs)
    found = await read_inputs(api, job.id)
    assert found.id == job.id
    assert found.inputs is not None
    (shown,) = found.inputs
    return shown


async def download(api: Api, shown: Input) -> bytes:
    """Return the content of an input in a file. Its URL needs no key."""
    assert shown.download_url is not None
    response = await api.http.get(shown.download_url, headers={"Authorization": ""})
    assert response.status_code == 200
    content = response.content[shown.offset :]
    assert len(content) == shown.size
    return content


async def submit_mirror(api: Api, **inputs: object) -> dict[str, Input]:
    """Submit these inputs of the model `mirror`, with zeros for its others. Return its inputs by name."""
    others: dict[str, object] = {name: [[0]] for name in MIRROR_DTYPES} | {"bool": [[False]], "bytes": [[""]]}
    job = await api.submit("mirror", others | inputs)
    return {each.name: each for each in (await read_inputs(api, job.id)).inputs or []}


async def test_json_is_shown_as_numbers_and_bytes_as_text(api: Api) -> None:
    texts: list[object] = ["größe", '"file":"file_01m7ysshxnfbevq05b7h55g94z"', {"base64": "/wA="}, ""]
    found = await submit_mirror(api, fp32=[[1.5, "NaN", "-Infinity"]], bytes=[texts[:2], texts[2:]], bool=[[True]])
    assert found["fp32"] == Input("fp32", "FP32", [1, 3], [1.5, "NaN", "-Infinity"])
    assert found["bytes"] == Input("bytes", "BYTES", [2, 2], texts)
    assert found["bool"] == Input("bool", "BOOL", [1, 1], [True])
    assert found.keys() == MIRROR_DTYPES.keys()


async def test_a_file_is_named_with_a_url_to_download_it(api: Api) -> None:
    image = await upload_file(api, IMAGE)
    shown = await submit_and_read(api, "ocr", {"image": {"file": image}})
    assert (shown.datatype, shown.shape, shown.file, shown.offset) == ("BYTES", [1], image, 0)
    assert await download(api, shown) == IMAGE

    array = io.BytesIO()
    np.save(array, np.array([[1.5, 2.5]], "<f4"))
    numbers = await upload_file(api, array.getvalue())
    shown = await submit_and_read(api, "echo", {"x": {"file": numbers}})
    assert (shown.datatype, shown.shape, shown.file) == ("FP32", [1, 2], numbers)
    assert await download(api, shown) == struct.pack("<2f", 1.5, 2.5)  # without the header


async def test_large_inputs_are_files(frugal: Api) -> None:
    shown = await submit_and_read(frugal, "echo", {"x": [VALUES]})
    assert (shown.name, shown.datatype, shown.shape, shown.data) == ("x", "FP32", [1, 1000], None)
    assert await download(frugal, shown) == np.array(VALUES, "<f4").tobytes()
    encoded = base64.b64encode(IMAGE).decode()
    shown = await submit_and_read(frugal, "ocr", {"image": {"base64": encoded}})
    assert await download(frugal, shown) == IMAGE
    texts = ["a" * 1000, "b" * 1000]
    shown = (await submit_mirror(frugal, bytes=[texts]))["bytes"]
    expected = b"".join(struct.pack("<I", len(text)) + text.encode() for text in texts)
    assert (shown.shape, await download(frugal, shown)) == ([1, 2], expected)


async def test_a_url_is_shown_without_its_query(api: Api) -> None:
    async with serve_contents() as contents:
        url = contents.add("/image.png", reply(IMAGE))
        shown = await submit_and_read(api, "ocr", {"image": {"url": f"{url}?X-Amz-Signature=secret"}})
    assert shown == Input("image", "BYTES", [1], url=url)


async def test_large_rows_are_shown_whole(api: Api) -> None:
    """The tensor is rendered in another process: its JSON is far larger than its row."""
    values = [1 / 3 + index for index in range(250 * 1024 // 4)]
    shown = await submit_and_read(api, "echo", {"x": [values]})
    assert shown.data is not None
    assert all(
        math.isclose(float(str(one)), other, rel_tol=1e-6) for one, other in zip(shown.data, values, strict=True)
    )


async def test_another_tenant_finds_nothing(api: Api, other_tenant: Api) -> None:
    job = await api.run("echo", {"x": [[1.0]]})
    for client, job_id in ((other_tenant, job.id), (api, UNKNOWN)):
        response = await client.http.get(f"/v1/jobs/{job_id}/inputs")
        assert (response.status_code, response.json()["type"]) == (404, "urn:charonia:problem:not_found")
    assert (await api.http.get("/v1/jobs/nonsense/inputs")).status_code == 404
    assert (await api.http.get(f"/v1/jobs/{job.id}/inputs", headers={"Authorization": ""})).status_code == 401


async def test_erased_inputs_are_said_to_be_erased(api: Api) -> None:
    job = await api.run("echo", {"x": [[1.0]]})
    assert (await api.http.post(f"/v1/jobs/{job.id}/erase")).status_code == 204
    response = await api.http.get(f"/v1/jobs/{job.id}/inputs")
    assert json.loads(response.content) == {"id": job.id, "inputs": None, "inputs_omitted": "erased"}
