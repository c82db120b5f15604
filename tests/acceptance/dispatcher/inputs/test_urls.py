"""Jobs with inputs that a dispatcher fetches from URLs."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator

import pytest

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import IMAGE, LINES
from tests.support.receivers.content_server import ContentServer, hang, reply, serve_contents
from tests.support.stacks.own_dispatcher import replace_dispatcher
from tests.support.stacks.own_gateway import another_gateway
from tests.support.telemetry.otlp_collector import Collector
from tests.support.waiting import eventually

NUMBER = struct.pack("<f", 2.5)
SOON = 20.0  # seconds: far below the deadline of a fetch


@pytest.fixture
async def contents() -> AsyncIterator[ContentServer]:
    async with serve_contents() as contents:
        yield contents


async def test_an_image_is_fetched(owner: Api, contents: ContentServer) -> None:
    url = contents.add("/image.png", reply(IMAGE)) + "?signature=secret"
    job = await owner.run("ocr", {"image": {"url": url}})
    assert (job.status, job.attempt, job.output("text")) == ("succeeded", 1, LINES), job.error
    listed = [{"name": "image", "datatype": "BYTES", "shape": [1], "data": {"url": url}}]
    assert (await owner.run("ocr", listed)).output("text") == LINES
    answer = (await owner.http.post("/v2/models/ocr/infer", json={"inputs": listed})).json()
    assert next(output["data"] for output in answer["outputs"] if output["name"] == "text") == LINES


async def test_numbers_are_fetched(owner: Api, contents: ContentServer) -> None:
    url = contents.add("/numbers", reply(struct.pack("<2f", 1.0, 2.5)))
    job = await owner.run("echo", {"x": {"url": url, "shape": [1, 2], "datatype": "FP32"}})
    assert (job.status, job.output("y")) == ("succeeded", [2.0, 5.0])


async def test_a_batch_uses_urls(owner: Api, contents: ContentServer) -> None:
    item = {"model": "ocr", "inputs": {"image": {"url": contents.add("/image", reply(IMAGE))}}}
    refused = {"model": "ocr", "inputs": {"image": {"url": "https://10.0.0.1/"}}}
    batch = (await owner.http.post("/v1/batches", json=[item, refused, item])).json()
    assert (batch["accepted"], batch["errors"][0]["errors"][0]["pointer"]) == (2, "/inputs/image/url")

    async def is_done() -> bool | None:
        return all(job.status == "succeeded" for job in await owner.list_all_jobs(batch=batch["id"])) or None

    await eventually(is_done, "all jobs succeeded")


async def test_each_attempt_fetches_again(owner: Api, contents: ContentServer) -> None:
    answers = iter([reply(b"", 500), reply(b"", 503), reply(IMAGE)])

    async def answer(writer: asyncio.StreamWriter) -> None:
        await next(answers)(writer)

    job = await owner.run("ocr", {"image": {"url": contents.add("/", answer)}}, retry={"initial_delay": 0})
    assert (job.status, job.attempt, job.output("text")) == ("succeeded", 3, LINES)
    attempts = await owner.list_attempts(job.id)
    assert [each.error_code for each in attempts] == ["input_url_failed", "input_url_failed", None]


async def test_a_url_that_fails_for_good_fails_the_job(
    owner: Api, contents: ContentServer, collector: Collector
) -> None:
    job = await owner.run("ocr", {"image": {"url": f"{contents.url}/missing?signature=secret"}})
    assert job.error is not None
    assert (job.status, job.attempt, job.error.code) == ("failed", 1, "input_url_failed")
    assert job.error.message.startswith("input 'image': 127.0.0.1 answered with status 404")
    spans = await collector.wait(job.trace_id, {"GET input", "process jobs.ocr"})
    (span,) = [span for span in spans if span.name == "GET input"]
    assert span.parent in [each.id for each in spans if each.name == "process jobs.ocr"]
    assert (span.attributes["url.full"], span.attributes["http.response.status_code"]) == (
        f"{contents.url}/REDACTED",
        404,
    )
    assert "secret" not in str(spans)


async def test_a_submit_with_a_forbidden_url_is_refused(owner: Api) -> None:
    for url, reason in (
        ("https://10.0.0.1/", "are not allowed"),
        ("https://169.254.169.254/", "link-local"),
        ("s3://bucket/key", "not allowed for your tenant"),
        ("file:///etc/passwd", "https://"),
        ("https://me:pass@example.com/", "user name"),
        (7, "expected a URL"),
    ):
        response = await owner.http.post("/v1/jobs", json={"model": "ocr", "inputs": {"image": {"url": url}}})
        (error,) = response.json()["errors"]
        assert (response.status_code, error["pointer"]) == (422, "/inputs/image/url")
        assert reason in error["detail"], error


async def test_addresses_that_are_not_public_are_closed_by_default(
    breakable: Stack, owner: Api, contents: ContentServer
) -> None:
    """Also where webhooks may go to them."""
    assert breakable.environment["CHARONIA_WEBHOOK_NETWORKS"].startswith("127.0.0.0/8")
    inputs = {"image": {"url": contents.add("/image", reply(IMAGE))}}
    closed = {"CHARONIA_INPUT_NETWORKS": ""}
    async with (
        another_gateway(breakable, **closed) as gateway,
        open_client(breakable, owner.http.headers["authorization"].removeprefix("Bearer "), gateway.url) as api,
    ):
        refused = await api.http.post("/v1/jobs", json={"model": "ocr", "inputs": inputs})
        assert (refused.status_code, "loopback" in refused.json()["errors"][0]["detail"]) == (422, True)
    async with replace_dispatcher(breakable, **closed):
        job = await owner.run("ocr", inputs)
        assert job.error is not None
        assert (job.status, job.error.code) == ("failed", "input_url_refused")
        assert "loopback" in job.error.message


async def test_a_job_is_canceled_while_its_input_is_fetched(owner: Api, contents: ContentServer) -> None:
    job = await owner.submit("ocr", {"image": {"url": contents.add("/", hang)}})
    await contents.until_asked()
    assert (await owner.http.post(f"/v1/jobs/{job.id}/cancel")).status_code in (200, 202)
    assert (await owner.wait(job.id, within=SOON)).status == "canceled"
    await contents.until_left()


async def test_slow_urls_of_a_tenant_delay_no_other_tenant(
    stack: Stack, owner: Api, other_tenant: Api, contents: ContentServer
) -> None:
    slow, quick = contents.add("/slow", hang), contents.add("/quick", reply(NUMBER))
    jobs = [(await owner.submit("echo", {"x": {"url": slow, "shape": [1, 1]}})).id for _ in range(60)]
    await contents.until_asked()
    began = time.monotonic()
    for value in ({"url": quick, "shape": [1, 1]}, [[2.5]]) * 3:
        assert (await other_tenant.run("echo", {"x": value})).output("y") == [5.0]
    assert time.monotonic() - began < SOON
    assert contents.most_waiting < 60  # a bound for one tenant
    contents.answers["/slow"] = reply(NUMBER)
    for writer in [*contents.waiting]:
        writer.close()
    for job in jobs:
        done = await owner.wait(job, within=60.0)
        assert done.output("y") == [5.0]
