"""The events of a job are streamed as they happen, once and in order. A client can resume anywhere."""

import asyncio
import time
from contextlib import aclosing
from typing import Any

import httpx
import msgspec
from websockets.asyncio.client import connect

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job, read
from tests.support.api.event_stream import StreamedEvent, read_events, stream_events
from tests.support.api.model_inputs import fault, tokens, work
from tests.support.telemetry.scraped_metrics import read_metric, wait_for_metric
from tests.support.waiting import eventually

WORDS = [f"word{number}" for number in range(30)]
SUCCEEDED = "job.succeeded"
KEY = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
LAST_EVENT_ID = "Last-Event-ID"
AT_ONCE = {"initial_delay": 0, "max_delay": 0}


def check_complete(events: list[StreamedEvent], job: Job) -> None:
    """Check that each event came once and in order, and that the responses are the outputs."""
    assert [each.type for each in events] == ["job.queued", "job.started", *["job.output"] * len(WORDS), SUCCEEDED]
    assert [word for each in events[2:-1] for word in each.tokens] == WORDS
    outputs = [output for each in events[2:-1] for output in each.data["outputs"]]
    assert outputs == msgspec.to_builtins(job.outputs)
    assert events[-1].data["outputs"] == outputs
    assert len({each.id for each in events}) == len(events)


async def test_each_response_arrives_before_the_model_makes_the_next(api: Api, http: httpx.AsyncClient) -> None:
    """Model and client share the clock of this machine. The pauses are long enough for a busy one."""
    submitted = await api.submit("tokens", tokens(["$now"] * 2, 4000))
    order: list[tuple[float, str]] = []
    async for each in stream_events(http, submitted.id):
        if each.type == "job.output":
            number = len(order) // 2
            order += [(float(each.tokens[0]), f"said {number}"), (time.time(), f"heard {number}")]
    steps = [f"{step} {number}" for number in range(2) for step in ("said", "heard")]
    assert [step for _, step in sorted(order)] == steps


async def test_stream_resumes_after_the_last_event_id(api: Api, http: httpx.AsyncClient) -> None:
    submitted = await api.submit("tokens", tokens(WORDS, 20))
    all_events = await read_events(http, submitted.id)
    for index in (0, 1, 2, 15, len(all_events) - 2):
        assert await read_events(http, submitted.id, all_events[index].id) == all_events[index + 1 :]
    headers = {"Accept": "text/event-stream", LAST_EVENT_ID: all_events[-1].id}
    response = await http.get(f"/v1/jobs/{submitted.id}/events", headers=headers)
    assert (response.status_code, response.content) == (204, b"")


async def test_stream_resumes_on_another_gateway(
    breakable: Stack, api: Api, http: httpx.AsyncClient, gateways: list[str]
) -> None:
    """The client reads the rest from another gateway, after the last event it has."""
    events: list[StreamedEvent] = []
    async with httpx.AsyncClient(base_url=gateways[1], headers=KEY, timeout=30) as other:
        submitted = await api.submit("tokens", tokens(WORDS, 200))
        stopping: asyncio.Task[int | None] | None = None
        async with aclosing(stream_events(http, submitted.id)) as stream:
            async for each in stream:
                events.append(each)
                if len(events) == 5:
                    stopping = asyncio.create_task(asyncio.to_thread(breakable.gateways[0].stop))
        assert stopping is not None
        assert await stopping == 0
        assert events[-1].type == "job.output"  # the stream ended before the job did
        events += await read_events(other, submitted.id, events[-1].id)
        check_complete(events, read(await other.get(f"/v1/jobs/{submitted.id}"), 200, Job))


async def test_all_gateways_stream_the_same_events(gateways: list[str], api: Api, http: httpx.AsyncClient) -> None:
    async with httpx.AsyncClient(base_url=gateways[1], headers=KEY, timeout=30) as other:
        submitted = await api.submit("tokens", tokens(WORDS, 30))
        events, other_events = await asyncio.gather(read_events(http, submitted.id), read_events(other, submitted.id))
    assert events == other_events
    check_complete(events, await api.get(submitted.id))


async def test_attempts_and_retries_are_streamed(api: Api, http: httpx.AsyncClient) -> None:
    submitted = await api.submit("faulty", fault("raise"), retry={"max_attempts": 2, **AT_ONCE})
    events = await read_events(http, submitted.id)
    assert [each.type for each in events] == ["job.queued", "job.started"] * 2 + ["job.failed"]
    assert [each.data.get("attempt") for each in events] == [None, 1, 1, 2, 2]
    assert events[2].data["error"]["code"] == "inference_failed"
    read(await http.post(f"/v1/jobs/{submitted.id}/retry"), 202, Job)
    again = await read_events(http, submitted.id, events[-1].id)
    assert [each.type for each in again] == [each.type for each in events]
    items = (await http.get(f"/v1/jobs/{submitted.id}/events")).json()["items"]
    assert [each["position"] for each in items] == [each.id for each in (*events, *again)]
    assert [each["sequence"] for each in items if "sequence" in each] == [1001, 2001, 2999, 4001, 5001, 5999]
    assert [each["timestamp"] for each in items] == sorted(each["timestamp"] for each in items)


async def test_cancellation_is_streamed(api: Api, http: httpx.AsyncClient) -> None:
    submitted = await api.submit("work", work(30_000))
    types: list[str] = []
    async with aclosing(stream_events(http, submitted.id)) as stream:
        async for each in stream:
            types.append(each.type)
            if each.type == "job.started":
                read(await http.post(f"/v1/jobs/{submitted.id}/cancel"), 202, Job)
    assert types == ["job.queued", "job.started", "job.canceling", "job.canceled"]


async def test_event_list_has_pages(api: Api, http: httpx.AsyncClient) -> None:
    job = await api.run("tokens", tokens(WORDS))
    path = f"/v1/jobs/{job.id}/events"
    all_events = (await http.get(path)).json()
    assert all_events["next_cursor"] is None
    items, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = (await http.get(path, params={"limit": 7} | ({"cursor": cursor} if cursor else {}))).json()
        items += page["items"]
        cursor, pages = page["next_cursor"], pages + 1
    assert items == all_events["items"]
    assert pages == -(-len(items) // 7)
    assert items[-1]["data"]["id"] == job.id


async def test_a_poller_of_a_running_job_goes_on_after_the_last_event_it_has(api: Api, http: httpx.AsyncClient) -> None:
    job = await api.submit("tokens", tokens(WORDS, 100))
    seen: list[dict[str, Any]] = []
    polls = 0

    async def poll() -> bool:
        nonlocal polls
        query = {"cursor": seen[-1]["position"]} if seen else {}
        page = (await http.get(f"/v1/jobs/{job.id}/events", params=query)).json()
        assert page["next_cursor"] is None
        seen.extend(page["items"])
        polls += bool(page["items"])
        return bool(seen[-1]["type"] == SUCCEEDED)

    await eventually(poll, "the job has ended")
    assert polls > 1
    assert seen == (await http.get(f"/v1/jobs/{job.id}/events")).json()["items"]


async def test_pages_with_large_responses_are_bounded(api: Api, http: httpx.AsyncClient) -> None:
    words = [f"{number}".rjust(30_000, "x") for number in range(200)]  # larger ones would be files
    job = await api.run("tokens", tokens(words))
    events_seen = await read_events(http, job.id)
    assert [word for each in events_seen for word in (each.tokens if each.type == "job.output" else [])] == words
    listed, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        query = {"limit": 1000} | ({"cursor": cursor} if cursor else {})
        response = await http.get(f"/v1/jobs/{job.id}/events", params=query)
        assert len(response.content) < 2_000_000
        listed += [each["position"] for each in response.json()["items"]]
        cursor, pages = response.json()["next_cursor"], pages + 1
    assert (listed, pages > 3) == ([each.id for each in events_seen], True)


async def test_disconnected_clients_are_not_counted_as_waiters(stack: Stack, api: Api) -> None:
    metrics = f"{stack.url}/metrics"
    submitted = await api.submit("work", work(60_000))
    path = f"/v1/jobs/{submitted.id}"
    async with (
        httpx.AsyncClient(base_url=stack.url, headers=KEY, timeout=30) as http,
        connect(f"ws{stack.url.removeprefix('http')}{path}/events", additional_headers=KEY),
    ):
        waiting = asyncio.create_task(http.get(f"{path}?wait=60"))
        listening = asyncio.create_task(read_events(http, submitted.id))
        await wait_for_metric(metrics, "charonia_waiters", 3)
        for task in (waiting, listening):
            task.cancel()
        await asyncio.wait([waiting, listening])

    async def poll() -> bool:
        return await read_metric(metrics, "charonia_waiters") == 0

    await eventually(poll, "there are no waiters")
    read(await api.http.post(f"{path}/cancel"), 202, Job)


async def test_events_of_another_tenant_are_not_found(api: Api, other_tenant: Api) -> None:
    job = await api.run("echo", {"x": [[1.0]]})
    for accept in ("application/json", "text/event-stream"):
        response = await other_tenant.http.get(f"/v1/jobs/{job.id}/events", headers={"Accept": accept})
        assert (response.status_code, response.json()["type"]) == (404, "urn:charonia:problem:not_found")


async def test_event_ids_that_are_none_of_the_job_are_refused(api: Api) -> None:
    """After the id of another job the stream would have no events, not even the job's end."""
    job = await api.run("echo", {"x": [[1.0]]})
    for header, query, wrong in [
        ({LAST_EVENT_ID: "x"}, {}, LAST_EVENT_ID),
        ({}, {"cursor": "x"}, "cursor"),
        ({LAST_EVENT_ID: "9.9"}, {}, LAST_EVENT_ID),
        ({}, {"cursor": "1.0"}, "cursor"),
    ]:
        headers = {"Accept": "text/event-stream", **header}
        response = await api.http.get(f"/v1/jobs/{job.id}/events", headers=headers, params=query)
        assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, wrong)
