"""A stream and a long poll of the feed end when their key is revoked."""

import asyncio

import httpx

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.event_stream import parse_events
from tests.support.stacks.key_command import make_key, run_keys
from tests.support.telemetry.scraped_metrics import wait_for_metric
from tests.support.waiting import eventually

STREAM = {"Accept": "text/event-stream"}
SOON = 30.0  # seconds: far below those of the long poll


async def test_a_stream_and_a_long_poll_end_when_their_key_is_revoked(stack: Stack) -> None:
    key = await make_key(stack, "revoked feed")
    seen: set[str] = set()
    async with open_client(stack, key) as client:
        client.http.timeout = httpx.Timeout(90)
        (listed,) = (await client.http.get("/v1/keys")).json()["items"]

        async def follow() -> None:
            async with client.http.stream("GET", "/v1/events", headers=STREAM) as response:
                async for event in parse_events(response):
                    seen.add(event.data["id"])

        async def has_seen() -> bool:
            return bool(seen)

        streaming = asyncio.create_task(follow())
        polling = asyncio.create_task(client.http.get("/v1/events", params={"types": "batch.*", "wait": 60}))
        job = await client.run("echo", {"x": [[1.0]]})
        await eventually(has_seen, "the stream has the job")
        await wait_for_metric(f"{stack.url}/metrics", "charonia_waiters", 2)
        assert (await run_keys(stack, "revoke", listed["id"])).returncode == 0
        async with asyncio.timeout(SOON):
            await streaming
            refused = await polling
        assert (refused.status_code, refused.json()["type"]) == (401, "urn:charonia:problem:unauthorized")
        assert seen == {job.id}
        for headers in (STREAM, {}):
            assert (await client.http.get("/v1/events", headers=headers)).status_code == 401
