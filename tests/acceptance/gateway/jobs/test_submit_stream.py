"""A submit may be answered with the stream of the job's events. The job does not depend on who reads it."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import httpx

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.event_stream import StreamedEvent, parse_events, read_events
from tests.support.api.model_inputs import tokens
from tests.support.stacks.own_gateway import another_gateway

ROOT = Path(__file__).parents[4]
WORDS = ["hello", "brave", "world"]
STREAM = {"Accept": "text/event-stream"}
TYPES = ["job.queued", "job.started", *["job.output"] * len(WORDS), "job.succeeded"]


@asynccontextmanager
async def submit(
    api: Api, inputs: Mapping[str, object], **headers: str
) -> AsyncIterator[tuple[httpx.Response, AsyncIterator[StreamedEvent]]]:
    """Submit a job for `tokens`, and open the stream in the answer."""
    named = STREAM | {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"model": "tokens", "inputs": inputs}
    async with api.http.stream("POST", "/v1/jobs", json=body, headers=named, timeout=30) as response:
        yield response, parse_events(response)


async def test_the_answer_is_the_stream_of_the_new_job(api: Api) -> None:
    async with submit(api, tokens(WORDS)) as (response, stream):
        events = [event async for event in stream]
    assert [event.type for event in events] == TYPES
    assert [word for event in events[2:-1] for word in event.tokens] == WORDS
    assert response.headers["cache-control"] == "no-cache"
    job_id = response.headers["location"].rpartition("/")[2]
    assert {event.data["id"] for event in events} == {job_id}
    assert await read_events(api.http, job_id) == events
    assert events[-1].data["outputs"]


async def test_the_job_goes_on_if_the_client_leaves(api: Api) -> None:
    async with submit(api, tokens(WORDS, 500)) as (_, stream):
        first = await anext(stream)
    assert (first.type, first.data["status"]) == ("job.queued", "queued")
    ended = await api.wait(first.data["id"])
    assert (ended.status, ended.attempt) == ("succeeded", 1)
    rest = await read_events(api.http, ended.id, first.id)
    assert [event.type for event in rest] == TYPES[1:]


async def test_a_repeated_submit_is_the_stream_of_the_same_job(api: Api) -> None:
    key = str(uuid4())
    answers = []
    for _ in range(2):
        async with submit(api, tokens(WORDS), idempotency_key=key) as (response, stream):
            answers.append((response.headers["location"], [event async for event in stream]))
    assert answers[0] == answers[1]
    assert response.headers["idempotency-replayed"] == "true"


async def test_errors_are_problems_and_json_is_the_default(api: Api) -> None:
    refused = await api.http.post("/v1/jobs", json={"model": "none", "inputs": {}}, headers=STREAM)
    assert (refused.status_code, refused.headers["content-type"]) == (404, "application/problem+json")
    for accepted in ("*/*", "application/json, text/event-stream;q=0.5"):
        await api.post({"model": "tokens", "inputs": tokens(WORDS)}, {"Accept": accepted})


async def test_without_a_place_for_the_stream_nothing_is_submitted(stack: Stack) -> None:
    """A gateway with no places stands for one whose places are taken."""
    async with (
        another_gateway(
            stack, PYTHONPATH=os.pathsep.join([str(ROOT / "tests/support/no_waiters"), str(ROOT)])
        ) as gateway,
        open_client(stack, DEVELOPMENT_KEY, gateway.url) as client,
    ):
        before = {job.id for job in await client.list_all_jobs(model="tokens")}  # some may still run
        body = {"model": "tokens", "inputs": tokens(WORDS)}
        refused = await client.http.post("/v1/jobs", json=body, headers=STREAM)
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:charonia:problem:overloaded")
        assert {job.id for job in await client.list_all_jobs(model="tokens")} == before
