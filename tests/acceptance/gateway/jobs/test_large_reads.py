"""Reads of large outputs take a bounded amount of a gateway's memory, and leave room for other tenants."""

import asyncio
from contextlib import AsyncExitStack

import httpx

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.large_outputs import enlarge_outputs, measure_peak
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_gateway import another_gateway
from tests.support.waiting import eventually

MEGABYTE = 1024 * 1024
SIZE = 12 * MEGABYTE  # of a large result
READERS = 14
LIMIT = 64 * MEGABYTE
GROWTH = 150 * MEGABYTE  # of a gateway's memory; without a limit it is half as much again


async def make_large(stack: Stack, api: Api, size: int) -> str:
    """Return the id of a job with outputs, and an event, of this many bytes."""
    job = await api.run("echo", {"x": [[1.0]]})
    await enlarge_outputs(stack, job.trace_id, size)
    return job.id


async def read_nothing(port: int, path: str, key: str = DEVELOPMENT_KEY) -> asyncio.StreamWriter:
    """Request a path and read nothing."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n".encode())
    return writer


async def test_readers_of_a_large_result_take_a_bounded_amount_of_memory(stack: Stack, api: Api) -> None:
    job_id = await make_large(stack, api, SIZE)
    async with (
        another_gateway(stack, CHARONIA_MAX_RESPONSES_BYTES=f"{LIMIT}") as gateway,
        open_client(stack, DEVELOPMENT_KEY, gateway.url) as client,
    ):
        await client.run("echo", {"x": [[1.0]]})
        before = measure_peak(gateway)

        async def read(path: str) -> int:
            async with client.http.stream("GET", path.format(job_id), timeout=60) as response:
                size = sum([len(chunk) async for chunk in response.aiter_raw()])
            assert size > SIZE or response.status_code == 503
            return response.status_code

        for path in ("/v1/jobs/{}", "/v1/jobs/{}/events"):
            statuses = await asyncio.gather(*(read(path) for _ in range(READERS)))
            assert set(statuses) <= {200, 503}
            assert statuses.count(200) >= 3
            grown = measure_peak(gateway) - before
            assert grown < GROWTH, f"grew by {grown // MEGABYTE} MB"


async def test_two_tenants_whose_readers_do_not_read_leave_room_for_all(stack: Stack, api: Api) -> None:
    """Before the gateway notices that a connection takes nothing."""
    job_id = await make_large(stack, api, SIZE)
    async with AsyncExitStack() as cleanup:
        limits = {"CHARONIA_MAX_RESPONSES_BYTES": f"{2 * SIZE + 1024}", "CHARONIA_SEND_TIMEOUT": "300"}  # room for two
        gateway = await cleanup.enter_async_context(another_gateway(stack, **limits))
        own = await cleanup.enter_async_context(open_client(stack, DEVELOPMENT_KEY, gateway.url))
        keys = [await make_key(stack, name) for name in ("stalled", "patient")]
        stalled, patient = [await cleanup.enter_async_context(open_client(stack, key, gateway.url)) for key in keys]
        theirs = [await make_large(stack, client, SIZE) for client in (stalled, patient)]
        for job, key in ((job_id, DEVELOPMENT_KEY), (theirs[0], keys[0])):
            writer = await read_nothing(gateway.port, f"/v1/jobs/{job}", key)
            cleanup.callback(writer.transport.abort)
        reads = [(own, job_id), (stalled, theirs[0]), (patient, theirs[1])]
        for answer in await asyncio.gather(*(read_patiently(client, job) for client, job in reads)):
            assert len(answer.content) > SIZE


async def read_patiently(api: Api, job_id: str) -> httpx.Response:
    """Return a large job. On a busy machine there may be no room at first."""

    async def poll() -> httpx.Response | None:
        answer = await api.http.get(f"/v1/jobs/{job_id}", timeout=30)
        return answer if answer.status_code == 200 else None

    return await eventually(poll, f"there is room for {job_id}")


async def test_a_stream_sends_a_large_event_whole(stack: Stack, api: Api) -> None:
    job_id = await make_large(stack, api, SIZE)
    async with api.http.stream("GET", f"/v1/jobs/{job_id}/events", headers={"Accept": "text/event-stream"}) as response:
        events = [line async for line in response.aiter_lines() if line.startswith(("event: ", "data: "))]
    assert [line for line in events if line.startswith("event: ")][-2:] == ["event: job.output", "event: job.succeeded"]
    assert [len(line) > SIZE for line in events].count(True) == 1
