"""A key with model permissions runs and sees only the models that its patterns match."""

from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import msgspec
import pytest

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api, Job, read
from tests.support.api.model_inputs import fault, work
from tests.support.stacks.key_command import make_key, run_keys

TENANT = "restricted"
INPUTS = {"x": [[1.0]]}
ECHO = {"model": "echo", "inputs": INPUTS}
ONCE = {"max_attempts": 1}


@pytest.fixture
async def key(stack: Stack) -> AsyncIterator[Api]:
    """A client whose key may run `echo` and models whose name begins with `ocr`."""
    async with open_client(stack, await make_key(stack, TENANT, "--model", "echo", "ocr*")) as client:
        yield client


@pytest.fixture
async def colleague(stack: Stack) -> AsyncIterator[Api]:
    """A client of the same tenant, whose key may run every model."""
    async with open_client(stack, await make_key(stack, TENANT)) as client:
        yield client


def refused(model: str) -> tuple[int, str, str]:
    detail = f"this call needs a key for the model '{model}'; the key has 'echo', 'ocr*'"
    return 403, "urn:charonia:problem:forbidden", detail


def show(response: httpx.Response) -> tuple[int, str, str]:
    body = response.json()
    return response.status_code, body["type"], body["detail"]


async def test_submits_are_accepted_for_allowed_models_only(key: Api) -> None:
    assert (await key.run("echo", INPUTS)).status == "succeeded"
    for model in ("mirror", "unknown"):
        assert show(await key.http.post("/v1/jobs", json=ECHO | {"model": model})) == refused(model)
    assert show(await key.http.post("/v1/jobs", json=ECHO | {"fallback_model": "mirror"})) == refused("mirror")


async def test_items_of_a_batch_are_refused_one_by_one(key: Api) -> None:
    accepted = await key.http.post("/v1/batches", json=[ECHO, ECHO | {"model": "mirror"}])
    assert accepted.status_code == 202
    (error,) = accepted.json()["errors"]
    assert (error["index"], error["type"], error["detail"]) == (1, *refused("mirror")[1:])


async def test_only_allowed_models_are_listed(key: Api) -> None:
    listed = (await key.http.get("/v1/models")).json()["items"]
    assert {model["name"] for model in listed} == {"echo", "ocr", "ocr_stream"}
    assert (await key.http.get("/v1/models/echo")).status_code == 200
    for model in ("mirror", "unknown"):
        assert show(await key.http.get(f"/v1/models/{model}")) == refused(model)
    missing = (await key.http.post("/v1/jobs", json=ECHO | {"model": "ocr_none"})).json()
    assert missing["detail"] == "model 'ocr_none' not found; known models: 'echo', 'ocr', 'ocr_stream'"


@pytest.mark.parametrize("path", ["", "/config", "/ready", "/infer", "/versions/1/infer"])
async def test_open_inference_serves_allowed_models_only(key: Api, path: str) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}
    content = msgspec.json.encode({"inputs": [tensor]}) if "infer" in path else None
    method = "POST" if content else "GET"
    assert (await key.http.request(method, f"/v2/models/echo{path}", content=content)).status_code == 200
    for model in ("mirror", "unknown"):
        response = await key.http.request(method, f"/v2/models/{model}{path}", content=content)
        assert (response.status_code, response.json()) == (403, {"error": refused(model)[2]})


async def test_retries_run_allowed_models_only(key: Api, colleague: Api) -> None:
    job = await colleague.run("faulty", fault("fail_times", 1) | {"key": [str(uuid4())]}, retry=ONCE)
    assert show(await key.http.post(f"/v1/jobs/{job.id}/retry")) == refused("faulty")
    for body in ({"ids": [job.id]}, {"filter": {"model": "faulty"}}):
        assert show(await key.http.post("/v1/dead-letters/replay", json=body)) == refused("faulty")
    retry = await key.http.post(f"/v1/jobs/{job.id}/retry", json={"target_model": "mirror"})
    replay = await key.http.post("/v1/dead-letters/replay", json={"ids": [job.id], "target_model": "mirror"})
    assert show(retry) == show(replay) == refused("mirror")
    unsuitable = await key.http.post(f"/v1/jobs/{job.id}/retry", json={"target_model": "echo"})
    assert unsuitable.status_code == 422  # the permission is there, but the model takes other inputs
    assert read(await colleague.http.post(f"/v1/jobs/{job.id}/retry"), 202, Job).status == "queued"
    assert (await colleague.wait(job.id)).status == "succeeded"


async def test_retry_is_refused_if_the_fallback_model_is_not_allowed(stack: Stack, colleague: Api) -> None:
    job = await colleague.submit("work", work(60_000), fallback_model="work_small", retry=ONCE)
    read(await colleague.http.post(f"/v1/jobs/{job.id}/cancel"), 202, Job)
    assert (await colleague.wait(job.id)).status == "canceled"
    async with open_client(stack, await make_key(stack, TENANT, "--model", "work")) as narrow:
        response = await narrow.http.post(f"/v1/jobs/{job.id}/retry")
    detail = "this call needs a key for the model 'work_small'; the key has 'work'"
    assert show(response) == (403, refused("work")[1], detail)


async def test_keys_are_listed_with_their_models(stack: Stack, key: Api) -> None:
    listed = msgspec.json.decode((await run_keys(stack, "list", TENANT, "--json")).stdout)
    assert ["echo", "ocr*"] in [row["models"] for row in listed]
    assert "echo,ocr*" in (await run_keys(stack, "list", TENANT)).stdout
    wrong = await run_keys(stack, "create", TENANT, "--model", "")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "'' is not 1 to 255 printable characters" in wrong.stderr
