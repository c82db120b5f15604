"""Models that take a reference get a URL of a file, and read as much of it as they want. See also `test_outages`."""

import hashlib
import os
import uuid
from datetime import UTC, datetime, timedelta

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.input_files import upload_file
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_dispatcher import replace_dispatcher
from tests.support.stacks.own_gateway import another_gateway

MIB = 1024 * 1024
CONTENT = os.urandom(3 * MIB)


def excerpt(file: str, offset: int, length: int) -> dict[str, object]:
    return {"audio": {"file": file}, "offset": [offset], "length": [length]}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def test_a_reference_counts_towards_no_limit_of_bytes(breakable: Stack) -> None:
    limits = {"CHARONIA_MAX_TENSOR_BYTES": "2048", "CHARONIA_MAX_QUEUED_BYTES": "3000"}
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    key = await make_key(breakable, f"inputs-{uuid.uuid4().hex[:8]}")
    async with (
        another_gateway(breakable, **limits) as gateway,
        replace_dispatcher(breakable, CHARONIA_MAX_INPUTS_BYTES="1024", CHARONIA_GATEWAY_URL=gateway.url),
        open_client(breakable, key, gateway.url) as owner,
    ):
        file = await upload_file(owner, CONTENT)
        refused = await owner.http.post("/v1/jobs", json={"model": "ocr", "inputs": {"image": {"file": file}}})
        assert refused.status_code == 422
        (error,) = refused.json()["errors"]
        assert (error["pointer"], "CHARONIA_MAX_TENSOR_BYTES" in error["detail"]) == ("/inputs/image/file", True)
        fits = {"model": "ocr", "inputs": {"image": {"file": await upload_file(owner, bytes(2048))}}, "run_at": later}
        waiting = await owner.post(fits)
        full = await owner.http.post("/v1/jobs", json=fits)
        assert (full.status_code, "inputs of at most 3000 bytes may wait" in full.json()["detail"]) == (429, True)
        jobs = [await owner.submit("excerpt", excerpt(file, 0, len(CONTENT))) for _ in range(3)]
        for job in jobs:
            done = await owner.wait(job.id)
            assert (done.status, done.output("sha256")) == ("succeeded", [digest(CONTENT)])
        assert (await owner.get(waiting.id)).status == "queued"


async def test_a_model_reads_a_part_of_a_file_by_its_url(owner: Api) -> None:
    file = await upload_file(owner, CONTENT)
    job = await owner.run("excerpt", excerpt(file, MIB + 1, MIB))
    assert (job.status, job.attempt) == ("succeeded", 1), job.error
    assert job.output("size") == [len(CONTENT)]
    assert job.output("sha256") == [digest(CONTENT[MIB + 1 : 2 * MIB + 1])]
    listed = [{"name": "audio", "datatype": "BYTES", "shape": [1], "data": {"file": file}}]
    assert (await owner.run("excerpt", listed)).output("sha256") == [digest(CONTENT[: 64 * 1024])]
    answer = (await owner.http.post("/v2/models/excerpt/infer", json={"inputs": listed})).json()
    assert next(each["data"] for each in answer["outputs"] if each["name"] == "size") == [len(CONTENT)]


async def test_a_model_says_that_it_takes_a_reference_and_no_data(api: Api) -> None:
    model = (await api.http.get("/v1/models/excerpt")).json()
    assert [each["name"] for each in model["inputs"] if each["reference"]] == ["audio"]
    for value in ("https://example.com/recording.flac", {"base64": "AAAA"}):
        refused = await api.http.post("/v1/jobs", json={"model": "excerpt", "inputs": {"audio": value}})
        assert refused.status_code == 422
        (error,) = refused.json()["errors"]
        assert (error["pointer"], "POST /v1/files" in error["detail"]) == ("/inputs/audio", True)


async def test_a_part_after_the_end_fails_for_good(owner: Api) -> None:
    job = await owner.run("excerpt", excerpt(await upload_file(owner, b"0123456789"), 10, 1))
    assert (job.status, job.error and job.error.code) == ("failed", "invalid_input")
