"""Runs whose tensors are files: inputs that were uploaded, and outputs that are too large for a row."""

from array import array
from hashlib import sha256

import pytest

from tests.support.api.api_client import Api

ROWS, WIDTH = 48, 2048  # 8 KiB a row, and 384 KiB together: more than stays in a row
MATRIX = {"datatype": "FP32", "shape": [-1, -1]}
PIPELINE = {
    "inputs": {"x": MATRIX},
    "steps": {
        "whole": {"model": "echo", "inputs": {"x": "$inputs.x"}},
        "rows": {"model": "echo", "inputs": {"x": "$inputs.x"}, "for_each": "x"},
        "again": {"model": "echo", "inputs": {"x": "$whole.y"}, "for_each": "x"},
        "last": {"model": "echo", "inputs": {"x": "$again.y"}},
    },
    "outputs": {"rows": "$rows.y", "last": "$last.y"},
}


def make_rows(factor: float) -> bytes:
    return array("f", [factor * (number % 1000) for number in range(ROWS * WIDTH)]).tobytes()


@pytest.fixture
async def stored(api: Api) -> None:
    response = await api.http.put("/v1/pipelines/large", json=PIPELINE)
    assert response.status_code in (200, 201), response.text


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("is_uploaded", [True, False], ids=["uploaded", "sent as data"])
async def test_files_are_divided_and_joined(api: Api, is_uploaded: bool) -> None:
    if is_uploaded:
        uploaded = await api.http.post("/v1/files", content=make_rows(1))
        assert uploaded.status_code == 201, uploaded.text
        inputs: object = {"x": {"file": uploaded.json()["id"], "shape": [ROWS, WIDTH]}}
    else:
        data = array("f", make_rows(1)).tolist()
        inputs = [{"name": "x", "datatype": "FP32", "shape": [ROWS, WIDTH], "data": data}]
    submitted = await api.post({"model": "large", "inputs": inputs})
    run = await api.wait(submitted.id)
    assert (run.status, run.error) == ("succeeded", None)
    for name, factor in (("rows", 2), ("last", 8)):
        output = run.file(name)
        assert (output.shape, output.size) == ([ROWS, WIDTH], len(make_rows(factor)))
        content = (await api.http.get(f"/v1/files/{output.file}/content")).content
        assert sha256(content).hexdigest() == sha256(make_rows(factor)).hexdigest() == output.sha256


@pytest.mark.usefixtures("stored")
async def test_an_input_at_a_url_is_not_divided(api: Api) -> None:
    inputs = {"x": {"url": "https://example.com/x", "shape": [ROWS, WIDTH]}}
    refused = await api.http.post("/v1/jobs", json={"model": "large", "inputs": inputs})
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert (error["pointer"], "upload it as a file" in error["detail"]) == ("/inputs/x", True)
