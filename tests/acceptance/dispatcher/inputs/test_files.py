"""Jobs read their inputs from files. Tests of outages have them on S3."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from tests.support.api.api_client import Api, Job
from tests.support.api.input_files import upload_file
from tests.support.api.model_inputs import IMAGE, LINES
from tests.support.api.triton_client import MIRROR_DTYPES, Array
from tests.support.waiting import eventually

VALUES = [[0, 1, 2], [3, 100, 0]]


def make_arrays() -> dict[str, Array]:
    """Return an array of every datatype but BYTES."""
    return {name: np.array(VALUES).astype(dtype) for name, dtype in MIRROR_DTYPES.items() if name != "bytes"}


def later() -> str:
    return (datetime.now(UTC) + timedelta(days=1)).isoformat()


def save(array: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


async def refuse(api: Api, inputs: Any) -> dict[str, Any]:
    response = await api.http.post("/v1/jobs", json={"model": "ocr", "inputs": inputs})
    assert response.status_code == 422, response.text
    found: dict[str, Any] = response.json()
    return found


async def test_a_file_that_a_job_needs_is_not_deleted(owner: Api) -> None:
    file = await upload_file(owner, IMAGE)
    waiting = await owner.submit("ocr", {"image": {"file": file}}, run_at=later())
    refused = await owner.http.delete(f"/v1/files/{file}")
    assert (refused.status_code, "cancel the job" in refused.json()["detail"]) == (409, True)
    assert (await owner.http.post(f"/v1/jobs/{waiting.id}/cancel")).status_code == 202
    assert (await owner.http.delete(f"/v1/files/{file}")).status_code == 204
    problem = await refuse(owner, {"image": {"file": file}})
    assert problem["errors"][0]["pointer"] == "/inputs/image/file"


async def test_an_image_is_read_from_a_file(owner: Api) -> None:
    file = await upload_file(owner, IMAGE)
    job = await owner.run("ocr", {"image": {"file": file}})
    assert (job.status, job.attempt, job.output("text")) == ("succeeded", 1, LINES)
    listed = [{"name": "image", "datatype": "BYTES", "shape": [1], "data": {"file": file}}]
    assert (await owner.run("ocr", listed)).output("text") == LINES
    answer = (await owner.http.post("/v2/models/ocr/infer", json={"inputs": listed})).json()
    assert next(output["data"] for output in answer["outputs"] if output["name"] == "text") == LINES


@pytest.mark.parametrize("kind", ["raw", "npy"])
async def test_every_datatype_is_read_from_a_file(owner: Api, kind: str) -> None:
    arrays = make_arrays()
    inputs: dict[str, object] = {"bytes": {"file": await upload_file(owner, "größe".encode()), "shape": [1, 1]}}
    for name, array in arrays.items():
        if kind == "npy":
            inputs[name] = {"file": await upload_file(owner, save(array))}
        else:
            datatype = name.upper()
            shape = list(array.shape)
            inputs[name] = {"file": await upload_file(owner, array.tobytes()), "datatype": datatype, "shape": shape}
    job = await owner.run("mirror", inputs)
    assert job.status == "succeeded", job.error
    assert job.output("bytes") == ["größe"]
    for name, array in arrays.items():
        assert job.output(name) == array.ravel().astype(np.float64).tolist(), name


async def test_a_batch_uses_one_file_many_times(owner: Api) -> None:
    file = await upload_file(owner, np.array([1, 2], "<f4").tobytes())
    missing = f"{file[:-1]}{'0' if file[-1] != '0' else '1'}"
    item = {"model": "echo", "inputs": {"x": {"file": file}}}
    items: list[dict[str, Any]] = [{**item, "custom_id": f"item-{number}"} for number in range(40)]
    items[7] = {**item, "inputs": {"x": {"file": missing}}}
    items[9] = {**item, "inputs": {"x": [[1.0]]}, "custom_id": "item-8"}
    batch = (await owner.http.post("/v1/batches", json=items)).json()
    assert (batch["accepted"], batch["total"]) == (38, 40)
    assert [(each["index"], each["errors"][0]["pointer"]) for each in batch["errors"]] == [
        (7, "/inputs/x/file"),
        (9, "/custom_id"),
    ]

    async def poll() -> list[Job] | None:
        jobs = await owner.list_all_jobs(batch=batch["id"])
        return jobs if all(job.status == "succeeded" for job in jobs) else None

    jobs = await eventually(poll, "all jobs succeeded")
    assert (await owner.get(jobs[0].id)).output("y") == [2.0, 4.0]


async def test_a_retry_without_its_file_fails_for_good(owner: Api) -> None:
    file = await upload_file(owner, b"no image")
    failed = await owner.run("ocr", {"image": {"file": file}})
    assert (failed.status, failed.error and failed.error.code) == ("failed", "invalid_input")
    assert (await owner.http.delete(f"/v1/files/{file}")).status_code == 204

    async def is_gone() -> bool | None:
        assert (await owner.http.post(f"/v1/jobs/{failed.id}/retry")).status_code == 202
        again = await owner.wait(failed.id)
        assert again.error is not None
        return (again.error.code, again.error.retryable) == ("input_missing", False) or None

    await eventually(is_gone, "the content is deleted", within=30.0)
    job = await owner.get(failed.id)
    assert (job.attempt, job.error and f"{file} was deleted" in job.error.message) == (1, True)


async def test_the_file_of_another_tenant_is_not_found(owner: Api, other_tenant: Api) -> None:
    file = await upload_file(other_tenant, IMAGE)
    for inputs in (
        {"image": {"file": file}},
        [{"name": "image", "datatype": "BYTES", "shape": [1], "data": {"file": file}}],
    ):
        problem = await refuse(owner, inputs)
        assert "not yours" in problem["errors"][0]["detail"]
