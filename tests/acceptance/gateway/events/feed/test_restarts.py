"""A reader of the feed gets each event once and in order, whatever happens to the gateway and to its own position."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.api.event_stream import StreamedEvent, parse_events
from tests.support.stacks.own_gateway import another_gateway
from tests.support.waiting import POLL_SECONDS, eventually

JOBS, BEFORE, DURING = 60, 10, 20
STREAM = {"Accept": "text/event-stream"}


class Reader:
    """Follows a feed, and connects again after the last event."""

    def __init__(self, url: str, headers: httpx.Headers) -> None:
        self.seen: list[StreamedEvent] = []
        self.connected = 0
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=30)

    async def read(self) -> None:
        """Read until cancelled."""
        async with self._http:
            while True:
                last = {"Last-Event-ID": self.seen[-1].id} if self.seen else {}
                with contextlib.suppress(httpx.TransportError):
                    async with self._http.stream("GET", "/v1/events", headers=STREAM | last) as response:
                        self.connected += 1
                        async for event in parse_events(response):
                            self.seen.append(event)
                await asyncio.sleep(POLL_SECONDS)  # the gateway is down

    async def wait_for(self, count: int) -> None:
        async def has_seen() -> bool:
            return len(self.seen) >= count

        await eventually(has_seen, f"{count} events arrive")


@contextlib.asynccontextmanager
async def open_reader(url: str, api: Api) -> AsyncIterator[Reader]:
    reader = Reader(url, api.http.headers)
    reading = asyncio.create_task(reader.read())
    try:
        yield reader
    finally:
        reading.cancel()
        await asyncio.wait([reading])


async def test_a_reader_loses_and_repeats_nothing_while_its_gateway_is_killed(stack: Stack, own: Api) -> None:
    """The jobs come by another gateway: before the kill, while the reader's gateway is down, and afterwards."""
    jobs: list[str] = []

    async def submit(count: int) -> None:
        jobs.extend([(await own.submit("echo", {"x": [[1.0]]})).id for _ in range(count)])

    async with another_gateway(stack) as gateway, open_reader(gateway.url, own) as reader:
        submitting = asyncio.create_task(submit(JOBS - DURING))
        await reader.wait_for(BEFORE)
        await asyncio.to_thread(gateway.kill)
        await submit(DURING)
        await asyncio.to_thread(gateway.start)
        await submitting
        await reader.wait_for(JOBS)
        assert reader.connected == 2
        await own.run("echo", {"x": [[1.0]]})
        await reader.wait_for(JOBS + 1)  # all before it have come
    items, after = list[dict[str, str]](), ""
    while len(items) < JOBS + 1:
        page = (await own.http.get("/v1/events", params={"after": after, "limit": "100"})).json()
        items += page["items"]
        after = page["next_after"]
    assert [each.id.partition(".")[0] for each in reader.seen] == [each["id"] for each in items]
    assert {each.data["id"] for each in reader.seen} > set(jobs)
    assert len({each.data["id"] for each in reader.seen}) == len(jobs) + 1 == len(reader.seen)


async def test_a_reader_goes_on_when_the_event_at_its_position_is_erased(stack: Stack, own: Api) -> None:
    first = await own.run("echo", {"x": [[1.0]]})
    async with open_reader(stack.url, own) as reader:
        await reader.wait_for(1)
        position = (await own.http.get("/v1/events")).json()["next_after"]
        assert reader.seen[0].id == position
        polling = asyncio.create_task(own.http.get("/v1/events", params={"after": position, "wait": 20}, timeout=40))
        assert (await own.http.post(f"/v1/jobs/{first.id}/erase")).status_code == 204
        second = await own.run("echo", {"x": [[1.0]]})
        await reader.wait_for(2)
        polled = (await polling).json()["items"]
        assert [each.data["id"] for each in reader.seen] == [first.id, second.id]
        assert [each["data"]["id"] for each in polled] == [second.id]
        assert reader.connected == 1
    again = await own.http.get("/v1/events", params={"after": position})
    assert [each["data"]["id"] for each in again.json()["items"]] == [second.id]
    bare = await own.http.get("/v1/events", params={"after": position.partition(".")[0]})
    assert (bare.status_code, bare.json()["type"]) == (404, "urn:charonia:problem:not_found")
