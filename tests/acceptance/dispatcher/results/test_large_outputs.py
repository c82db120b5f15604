"""A large output is a file, wherever its job is shown. Tests of interruptions have it on S3."""

import hashlib
import json
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from tests.support.api.api_client import Api, Job, Output
from tests.support.api.event_stream import read_events
from tests.support.api.input_files import upload_file
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.waiting import eventually

VALUES = np.arange(100_000, dtype="<f4").reshape(1, -1)
DOUBLED = (2 * VALUES).tobytes()
FIELDS = {"name", "datatype", "shape", "file", "download_url", "size", "sha256"}


async def submit_large(api: Api, **options: object) -> Job:
    """Submit a job whose output has 400 kB."""
    file = await upload_file(api, VALUES.tobytes())
    return await api.submit("echo", {"x": {"file": file, "shape": list(VALUES.shape)}}, **options)


def find_path(url: str) -> str:
    """Return a URL of the stack's own gateway as one of any gateway."""
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


async def download(api: Api, output: Output) -> bytes:
    """Return the content of a file, without a key."""
    assert output.download_url is not None
    async with httpx.AsyncClient(base_url=api.http.base_url, follow_redirects=True, timeout=45) as stranger:
        answer = await stranger.get(find_path(output.download_url))
    assert answer.status_code == 200, answer.text
    return answer.content


def without_url(output: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an output that are always the same. Each view signs a URL of its own."""
    assert find_path(output["download_url"]).startswith(f"/v1/files/{output['file']}/content?expires=")
    return {name: value for name, value in output.items() if name != "download_url"}


async def test_a_job_shows_the_file_of_a_large_output(owner: Api) -> None:
    job = await owner.wait((await submit_large(owner)).id)
    output = job.file("y")
    assert (output.datatype, output.shape, output.size) == ("FP32", [1, 100_000], len(DOUBLED))
    assert output.sha256 == hashlib.sha256(DOUBLED).hexdigest()
    assert await download(owner, output) == DOUBLED
    path = f"/v1/files/{output.file}"
    found = (await owner.http.get(path)).json()
    assert (found["size"], found["sha256"], found["expires_at"]) == (output.size, output.sha256, None)
    assert output.file not in [each["id"] for each in (await owner.http.get("/v1/files")).json()["items"]]
    refused = await owner.http.delete(path)
    assert (refused.status_code, job.id in refused.json()["detail"]) == (409, True)


async def test_every_view_of_a_job_names_the_same_file(owner: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    submitted = await submit_large(owner, webhook={"url": inbox.url})
    (delivery,) = await inbox.wait()
    delivery.verify(await owner.callback_secret())
    shown = [json.loads(delivery.request.body)["data"]["outputs"]]
    path = f"/v1/jobs/{submitted.id}"
    shown.append((await owner.http.get(path)).json()["outputs"])
    shown.append((await owner.http.get(f"{path}/outputs")).json()["outputs"])
    shown.append((await read_events(owner.http, submitted.id))[-1].data["outputs"])
    shown.append((await owner.http.get(f"{path}/events")).json()["items"][-1]["data"]["outputs"])
    assert shown[0][0].keys() == FIELDS
    first, *others = [[without_url(each) for each in outputs] for outputs in shown]
    assert others == [first] * 4


async def test_a_line_of_a_batch_names_the_file(owner: Api) -> None:
    file = await upload_file(owner, VALUES.tobytes())
    item = {"model": "echo", "inputs": {"x": {"file": file, "shape": list(VALUES.shape)}}}
    batch = (await owner.http.post("/v1/batches", json=[item])).json()

    async def read() -> str | None:
        answer = await owner.http.get(f"/v1/batches/{batch['id']}/results")
        return answer.text if answer.status_code == 200 else None

    (line,) = (await eventually(read, "the batch has ended")).splitlines()
    (output,) = json.loads(line)["job"]["outputs"]
    assert output.keys() == FIELDS
    assert await download(owner, Output(**output)) == DOUBLED


async def test_each_response_of_a_stream_has_its_file(owner: Api) -> None:
    words = ["a" * 300_000, " small", " " + "b" * 300_000]
    job = await owner.run("tokens", {"text": ["".join(words)]})
    events = await read_events(owner.http, job.id)
    streamed = [event.data["outputs"][0] for event in events if event.type == "job.output"]
    shown = (await owner.http.get(f"/v1/jobs/{job.id}")).json()["outputs"]
    assert [each["response"] for each in shown] == [0, 1, 2]
    for outputs in (streamed, shown):
        assert outputs[1]["data"] == [" small"]
        found = [await download(owner, Output(**outputs[number])) for number in (0, 2)]
        assert found == [word.encode() for word in words[::2]]
    assert [without_url(each) for each in streamed[::2]] == [without_url(each) for each in shown[::2]]


async def test_the_open_inference_protocol_has_the_elements(owner: Api) -> None:
    file = await upload_file(owner, VALUES.tobytes())
    tensor = {"name": "x", "datatype": "FP32", "shape": list(VALUES.shape), "data": {"file": file}}
    (output,) = (await owner.http.post("/v2/models/echo/infer", json={"inputs": [tensor]})).json()["outputs"]
    assert np.array(output["data"], "<f4").tobytes() == DOUBLED
    raw = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    answer = await owner.http.post("/v2/models/echo/infer", json=raw)
    length = int(answer.headers["Inference-Header-Content-Length"])
    (output,) = json.loads(answer.content[:length])["outputs"]
    assert output["parameters"] == {"binary_data_size": len(DOUBLED)}
    assert answer.content[length:] == DOUBLED


async def test_more_than_json_may_have_is_refused_by_the_open_inference_protocol(owner: Api) -> None:
    inputs = [{"name": "mode", "datatype": "BYTES", "shape": [1], "data": ["large"]}]
    inputs.append({"name": "value", "datatype": "INT32", "shape": [1], "data": [9_000_000]})
    refused = await owner.http.post("/v2/models/faulty/infer", json={"inputs": inputs})
    assert refused.status_code == 400
    assert "'result': 9000000 bytes are too many for JSON" in refused.json()["error"]
    raw = {"inputs": inputs, "parameters": {"binary_data_output": True}}
    answer = await owner.http.post("/v2/models/faulty/infer", json=raw)
    length = int(answer.headers["Inference-Header-Content-Length"])
    assert answer.content[length:] == (9_000_000).to_bytes(4, "little") + bytes(9_000_000)


async def test_an_erased_job_takes_its_file_along(owner: Api) -> None:
    job = await owner.wait((await submit_large(owner)).id)
    output = job.file("y")
    assert (await owner.http.post(f"/v1/jobs/{job.id}/erase")).status_code == 204
    assert (await owner.http.get(f"/v1/files/{output.file}")).status_code == 404
    assert (await owner.http.get(find_path(output.download_url or ""))).status_code == 404
