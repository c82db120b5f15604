"""The outputs of jobs go to buckets that an operator lets their tenant write to."""

import hashlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from charonia import AsyncCharonia, CharoniaError

from deploy.local.stack import Stack
from tests.support.api.api_client import Job, Output
from tests.support.api.event_stream import read_events
from tests.support.api.model_inputs import tokens
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.customer import Customer, open_customer
from tests.support.stacks.on_s3 import OnS3
from tests.support.waiting import eventually

INPUTS = {"x": [[1.0, 2.5]]}
CONTENT = b"\x00\x00\x00\x40\x00\x00\xa0\x40"  # twice as much
FIELDS = {"name", "datatype", "shape", "location", "size", "sha256"}


@pytest.fixture
async def customer(stack: Stack, shared_on_s3: OnS3, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Customer]:
    """A customer that may write to the folder `out/` of its bucket."""
    async with open_customer(stack, shared_on_s3, monkeypatch) as customer:
        allowed = await customer.run_command("allow", customer.name, f"s3://{customer.bucket}/out/", "--write")
        assert allowed == (0, f"{customer.name}: s3://{customer.bucket}/out/ (write)")
        yield customer


def make_target(customer: Customer, folder: str = "out/jobs/") -> dict[str, str]:
    return {"location": f"s3://{customer.bucket}/{folder}"}


def find_output(job: Job) -> Output:
    assert job.status == "succeeded", job.error
    assert job.outputs is not None
    (output,) = job.outputs
    return output


async def test_outputs_go_to_the_location(customer: Customer, receiver: Receiver) -> None:
    inbox, target = receiver.inbox(), make_target(customer)
    job = await customer.api.run("echo", INPUTS, output=target, webhook={"url": inbox.url})
    output = find_output(job)
    url = f"{target['location']}{job.id}/1/y"
    assert (output.location, output.data, output.file, output.download_url) == (url, None, None, None)
    assert (output.size, output.sha256) == (len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    assert await customer.read(url) == CONTENT
    (delivery,) = await inbox.wait()
    shown = [json.loads(delivery.request.body)["data"]["outputs"]]
    path = f"/v1/jobs/{job.id}"
    shown.append((await customer.api.http.get(path)).json()["outputs"])
    shown.append((await customer.api.http.get(f"{path}/outputs")).json()["outputs"])
    shown.append((await read_events(customer.api.http, job.id))[-1].data["outputs"])
    assert shown[0][0].keys() == FIELDS
    assert shown[1:] == [shown[0]] * 3
    assert (await customer.api.http.get("/v1/files")).json()["items"] == []
    assert (await customer.api.http.post(f"{path}/erase")).status_code == 204
    assert await customer.read(url) == CONTENT  # it is the client's own


async def test_each_response_of_a_stream_is_an_object(customer: Customer) -> None:
    job = await customer.api.run("tokens", tokens(["a", "bc"]), output=make_target(customer))
    assert job.outputs is not None
    assert [(each.response, each.location) for each in job.outputs] == [
        (number, f"s3://{customer.bucket}/out/jobs/{job.id}/1/{job.outputs[0].name}-{number}") for number in range(2)
    ]
    assert [await customer.read(each.location or "") for each in job.outputs] == [b"a", b" bc"]
    events = await read_events(customer.api.http, job.id)
    streamed = [event.data["outputs"][0] for event in events if event.type == "job.output"]
    assert streamed == (await customer.api.http.get(f"/v1/jobs/{job.id}")).json()["outputs"]


async def test_a_submit_to_anywhere_else_is_refused(customer: Customer) -> None:
    for folder in ("", "other/", "out/../in/", "out"):
        response = await customer.api.http.post(
            "/v1/jobs", json={"model": "echo", "inputs": INPUTS, "output": make_target(customer, folder)}
        )
        assert response.status_code == 422, response.text
        (error,) = response.json()["errors"]
        assert error["pointer"] == "/output/location"
        if folder == "other/":
            assert "`python -m services.gateway.commands.locations allow --write`" in error["detail"]


async def test_the_items_of_a_batch_have_a_location(customer: Customer) -> None:
    items = [
        {"defaults": {"model": "echo", "output": make_target(customer)}},
        {"inputs": INPUTS},
        {"inputs": INPUTS, "output": make_target(customer, "other/")},
    ]
    batch = (await customer.api.http.post("/v1/batches", json=items)).json()
    assert (batch["accepted"], batch["errors"][0]["errors"][0]["pointer"]) == (1, "/output/location")

    async def read() -> str | None:
        answer = await customer.api.http.get(f"/v1/batches/{batch['id']}/results")
        return answer.text if answer.status_code == 200 else None

    line = (await eventually(read, "the batch has ended")).splitlines()[0]
    (output,) = json.loads(line)["job"]["outputs"]
    assert await customer.read(output["location"]) == CONTENT


async def test_a_revoked_location_fails_the_job(customer: Customer) -> None:
    target, later = make_target(customer), (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    job = await customer.api.submit("echo", INPUTS, output=target, run_at=later)
    assert job.status == "queued"
    assert (await customer.api.http.post(f"/v1/jobs/{job.id}/cancel")).status_code == 202
    revoked = await customer.run_command("revoke", customer.name, f"s3://{customer.bucket}/out/")
    assert revoked[0] == 0
    assert (await customer.api.http.post(f"/v1/jobs/{job.id}/retry")).status_code == 202
    failed = await customer.api.wait(job.id)
    assert failed.error is not None
    assert (failed.error.code, failed.error.retryable) == ("output_location_refused", False)
    assert customer.s3.list_keys(customer.bucket) == []


async def test_the_python_client_names_the_location(customer: Customer) -> None:
    http = customer.api.http
    key = http.headers["Authorization"].removeprefix("Bearer ")
    async with AsyncCharonia(str(http.base_url), key) as client:
        result = await client.run("echo", INPUTS, options={"output": {"location": make_target(customer)["location"]}})
    (output,) = result.tensors
    assert output.location is not None
    assert await customer.read(output.location) == CONTENT
    with pytest.raises(CharoniaError, match=output.location):
        result["y"]
