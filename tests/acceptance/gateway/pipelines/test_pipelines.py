"""Pipelines are stored, checked, listed and deleted, and look like models."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.stacks.key_command import make_key

STEP = {"model": "echo", "inputs": {"x": "$inputs.x"}}
ONCE = {
    "inputs": {"x": {"datatype": "FP32", "shape": [-1, -1]}},
    "steps": {"only": STEP},
    "outputs": {"result": "$only.y"},
}
SLOWER = ONCE | {"steps": {"only": STEP | {"timeout": 30}}}


@pytest.fixture
async def http(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a tenant without pipelines."""
    async with open_client(stack, await make_key(stack, "pipelines")) as client:
        for each in (await client.http.get("/v1/pipelines", params={"limit": 1000})).json()["items"]:
            await client.http.delete(f"/v1/pipelines/{each['name']}")
        yield client.http


async def put(http: httpx.AsyncClient, name: str, definition: object = ONCE) -> Any:
    response = await http.put(f"/v1/pipelines/{name}", json=definition)
    assert response.status_code in (200, 201), response.text
    return response


async def test_each_new_definition_is_a_version(http: httpx.AsyncClient) -> None:
    first = await put(http, "once")
    number = int(first.json()["version"])
    assert (first.status_code, first.headers["Location"]) == (201, "/v1/pipelines/once")
    again, slower = await put(http, "once"), await put(http, "once", SLOWER)
    assert (again.status_code, again.json()) == (200, first.json())
    assert (slower.status_code, slower.json()["version"]) == (201, str(number + 1))
    newest = (await http.get("/v1/pipelines/once")).json()
    assert newest["versions"] == [str(number + 1), str(number)]
    assert newest["definition"]["steps"]["only"]["timeout"] == 30
    older = (await http.get("/v1/pipelines/once", params={"version": str(number)})).json()
    assert (older["definition"], older["version"]) == (first.json()["definition"], str(number))
    assert (await put(http, "once", newest["definition"])).status_code == 200
    assert (await http.get("/v1/pipelines/once", params={"version": "999"})).status_code == 404


async def test_a_check_stores_nothing(http: httpx.AsyncClient) -> None:
    checked = await http.post("/v1/pipelines/once/check", json=ONCE)
    assert checked.status_code == 200, checked.text
    assert [(each["name"], each["shape"]) for each in checked.json()["output_tensors"]] == [("result", [-1, -1])]
    assert (await http.get("/v1/pipelines/once")).status_code == 404
    wrong = ONCE | {"outputs": {"result": "$onyl.y"}}
    for call in (http.post("/v1/pipelines/once/check", json=wrong), http.put("/v1/pipelines/once", json=wrong)):
        refused = await call
        assert refused.status_code == 422
        assert [each["pointer"] for each in refused.json()["errors"]] == ["/outputs/result"]


async def test_the_name_of_a_model_is_taken(http: httpx.AsyncClient) -> None:
    refused = await http.put("/v1/pipelines/echo", json=ONCE)
    assert (refused.status_code, "Triton has a model 'echo'" in refused.json()["detail"]) == (409, True)


async def test_a_name_that_no_path_can_have_is_refused(http: httpx.AsyncClient) -> None:
    refused = await http.put("/v1/pipelines/%2e%2e", json=ONCE)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "pipeline")


async def test_a_list_has_pages(http: httpx.AsyncClient) -> None:
    names = ["a", "b c", "d-e", "ä"]
    for name in names:
        await put(http, name)
    found: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = (await http.get("/v1/pipelines", params=query)).json()
        found += [each["name"] for each in page["items"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert sorted(found) == sorted(names)
    assert (await http.get("/v1/pipelines", params={"cursor": "x"})).status_code == 422


async def test_a_deleted_pipeline_takes_no_jobs(http: httpx.AsyncClient) -> None:
    await put(http, "once")
    body = {"model": "once", "inputs": {"x": [[1.0]]}}
    assert (await http.post("/v1/jobs", json=body)).status_code == 202
    assert (await http.delete("/v1/pipelines/once")).status_code == 204
    for response in (await http.delete("/v1/pipelines/once"), await http.post("/v1/jobs", json=body)):
        assert response.status_code == 404


async def test_a_pipeline_is_in_the_catalogue(http: httpx.AsyncClient) -> None:
    await put(http, "once")
    listed = {each["name"]: each for each in (await http.get("/v1/models")).json()["items"]}
    view = listed["once"]
    assert (listed["echo"]["kind"], view["kind"], view["ready"], view["reason"]) == ("model", "pipeline", True, None)
    assert [view[name] for name in ("max_batch_size", "queue", "slots", "running")] == [None] * 4
    assert [each["name"] for each in (*view["inputs"], *view["outputs"])] == ["x", "result"]
    details = (await http.get("/v1/models/once")).json()
    assert details.items() >= view.items()


async def test_the_open_inference_protocol_runs_a_pipeline(http: httpx.AsyncClient) -> None:
    await put(http, "once")
    metadata = (await http.get("/v2/models/once")).json()
    assert [each["name"] for each in metadata["outputs"]] == ["result"]
    assert (await http.get("/v2/models/once/ready")).status_code == 200
    inputs = [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]
    answer = (await http.post("/v2/models/once/infer", json={"inputs": inputs})).json()
    assert [(each["name"], each["shape"], each["data"]) for each in answer["outputs"]] == [("result", [1, 2], [2, 4])]
    assert answer["model_name"] == "once"
    for refused in (
        await http.get("/v2/models/once/versions/77"),
        await http.post("/v2/models/once/versions/77/infer", json={"inputs": inputs}),
    ):
        assert refused.status_code == 404
        assert "'once' version 77 is not found; its newest version is '" in refused.json()["error"]


async def test_a_key_sees_and_runs_only_its_pipelines(stack: Stack, http: httpx.AsyncClient) -> None:
    await put(http, "once")
    await put(http, "other")
    made = await http.post("/v1/keys", json={"name": "some", "scopes": ["read", "submit"], "models": ["other"]})
    async with open_client(stack, made.json()["key"]) as limited:
        items = (await limited.http.get("/v1/pipelines")).json()["items"]
        assert [each["name"] for each in items] == ["other"]
        assert [each["name"] for each in (await limited.http.get("/v1/models")).json()["items"]] == ["other"]
        body = {"inputs": {"x": [[1.0]]}}
        for name, status in (("other", 202), ("once", 403)):
            assert (await limited.http.post("/v1/jobs", json=body | {"model": name})).status_code == status
        assert (await limited.http.get("/v1/pipelines/once")).status_code == 403
        assert (await limited.http.put("/v1/pipelines/other", json=ONCE)).status_code == 403
