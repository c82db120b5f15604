"""All events of a tenant come from one call: as a list, with a long poll, or as a stream."""

import asyncio
import time
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from tests.support.api.api_client import Api
from tests.support.api.event_stream import StreamedEvent, parse_events
from tests.support.api.model_inputs import work
from tests.support.receivers.webhook_receiver import Receiver

ECHO = {"model": "echo", "inputs": {"x": [[1.0]]}}
STREAM = {"Accept": "text/event-stream"}
SOON = 20.0  # seconds: far below those of the long poll


async def read_feed(api: Api, **query: object) -> dict[str, Any]:
    response = await api.http.get("/v1/events", params=query)  # type: ignore[arg-type]
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def read_all(api: Api, count: int, **query: object) -> list[dict[str, Any]]:
    """Return `count` events, page by page."""
    items: list[dict[str, Any]] = []
    page: dict[str, Any] = {"next_after": ""}
    until = time.monotonic() + 30
    while len(items) < count and time.monotonic() < until:
        page = await read_feed(api, after=page["next_after"] or "", wait=5, **query)
        items += page["items"]
    return items


async def test_the_feed_has_all_events_in_order_with_the_bodies_of_webhooks(
    own: Api, other_tenant: Api, receiver: Receiver
) -> None:
    """Starts are recorded for who subscribes to them."""
    subscription = {"url": receiver.inbox().url, "events": ["job.started"]}
    assert (await own.http.post("/v1/webhooks", json=subscription)).status_code == 201
    assert await read_feed(own) == {"items": [], "next_after": None, "has_more": False}
    jobs = [await own.run("echo", {"x": [[1.0]]}) for _ in range(3)]
    items = await read_all(own, 6, limit=2)
    for number, job in enumerate(jobs):
        started, ended = items[2 * number : 2 * number + 2]
        assert [each["type"] for each in (started, ended)] == ["job.started", "job.succeeded"]
        assert [each["sequence"] for each in (started, ended)] == [1001, 1999]
        assert [each["data"]["id"] for each in (started, ended)] == [job.id] * 2
        assert ended["data"]["outputs"][0]["data"] == [2.0]
    assert [each["id"] for each in (await read_feed(own, after=items[2]["id"]))["items"]] == [
        each["id"] for each in items[3:]
    ]
    assert (await read_feed(own, after="latest"))["items"] == []
    ended_items = (await read_feed(own, types="job.succeeded,batch.*"))["items"]
    assert [each["id"] for each in ended_items] == [each["id"] for each in items[1::2]]
    assert not {each["id"] for each in items} & {each["id"] for each in (await read_feed(other_tenant))["items"]}
    foreign = await other_tenant.http.get("/v1/events", params={"after": items[0]["id"]})
    assert (foreign.status_code, foreign.json()["type"]) == (404, "urn:charonia:problem:not_found")


async def test_a_long_poll_returns_with_the_event(own: Api) -> None:
    began = time.monotonic()
    assert (await read_feed(own, wait=0.5))["items"] == []
    assert time.monotonic() - began >= 0.5
    waiting = asyncio.create_task(read_feed(own, types="job.succeeded", wait=60))
    await own.run("work", work(1000))
    ended = time.monotonic()
    (event,) = (await waiting)["items"]
    assert event["type"] == "job.succeeded"
    assert time.monotonic() - ended < SOON


async def test_a_stream_goes_on_after_the_last_event_on_another_gateway(gateways: list[str], own: Api) -> None:
    first = await own.run("echo", {"x": [[1.0]]})
    seen = await listen(own.http, 1)
    assert seen[0].data["id"] == first.id
    assert (await own.http.post(f"/v1/jobs/{first.id}/erase")).status_code == 204  # also the event it saw last
    second = await own.run("echo", {"x": [[1.0]]})
    batch = (await own.http.post("/v1/batches", json=[ECHO, ECHO])).json()
    async with httpx.AsyncClient(base_url=gateways[1], headers=own.http.headers, timeout=30) as other:
        rest = await listen(other, 4, seen[-1].id)
    assert rest[0].data["id"] == second.id
    assert [each.type for each in rest] == [*["job.succeeded"] * 3, "batch.completed"]
    assert [each.data["id"] for each in rest if each.type == "batch.completed"] == [batch["id"]]
    assert len({each.id for each in rest}) == 4


async def listen(http: httpx.AsyncClient, count: int, last_id: str | None = None) -> list[StreamedEvent]:
    """Return the next `count` events of the stream."""
    events: list[StreamedEvent] = []
    headers = STREAM | ({"Last-Event-ID": last_id} if last_id else {})
    async with (
        asyncio.timeout(30),
        http.stream("GET", "/v1/events", headers=headers) as response,
        aclosing(parse_events(response)) as stream,
    ):
        async for event in stream:
            events.append(event)
            if len(events) == count:
                break
    return events


@pytest.mark.parametrize("number", ["", ".9223372036854775000", ".9999999999999999999"])
async def test_an_event_that_never_was_is_not_found(other_tenant: Api, number: str) -> None:
    """A position in the future would hide all that comes."""
    response = await other_tenant.http.get("/v1/events", params={"after": f"evt_01m7ystyt3fmq9pqw9y6x8q317{number}"})
    assert response.status_code == 404


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"after": "evt_01m7ystyt3fmq9pqw9y6x8q317."}, "after"),
        ({"after": "job_01m7ystyt3fmq9pqw9y6x8q317"}, "after"),
        ({"types": "job.nothing"}, "types"),
        ({"types": "job.*,"}, "types"),
        ({"wait": "61"}, "wait"),
        ({"type": "job.*"}, "type"),
    ],
)
async def test_mistakes_are_named(other_tenant: Api, query: dict[str, str], pointer: str) -> None:
    response = await other_tenant.http.get("/v1/events", params=query)
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, pointer)
    assert pointer != "types" or "a pattern such as job.*" in response.json()["errors"][0]["detail"]
