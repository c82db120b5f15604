"""Large results take a bounded amount of memory. What breaks off can go on."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.batch_results import read_results
from tests.support.api.batches import echo, submit_batch, wait_for_batch
from tests.support.api.large_outputs import enlarge_outputs, measure_peak
from tests.support.stacks.key_command import make_key, run_keys
from tests.support.stacks.own_gateway import another_gateway
from tests.support.waiting import eventually

MEGABYTE = 1024 * 1024


async def make_large_batch(stack: Stack, api: Api, count: int, size: int) -> str:
    """Return the id of a completed batch of jobs with outputs of this many bytes."""
    batch = await submit_batch(api, [echo(number) for number in range(count)])
    await wait_for_batch(api, batch.id)
    for each in await read_results(api, batch.id):
        assert each.job is not None
        await enlarge_outputs(stack, each.job.trace_id, size)
    return batch.id


async def test_readers_of_large_results_take_a_bounded_amount_of_memory(stack: Stack, api: Api) -> None:
    size, count, readers = 6 * MEGABYTE, 6, 8
    batch_id = await make_large_batch(stack, api, count, size)
    async with (
        another_gateway(stack, CHARONIA_MAX_RESPONSES=f"{64 * MEGABYTE}") as gateway,
        open_client(stack, DEVELOPMENT_KEY, gateway.url) as client,
    ):
        await client.run("echo", {"x": [[1.0]]})
        before = measure_peak(gateway)

        async def read_all() -> bool:
            received = 0
            async with client.http.stream("GET", f"/v1/batches/{batch_id}/results", timeout=120) as response:
                try:
                    async for chunk in response.aiter_raw():
                        received += len(chunk)
                except httpx.RemoteProtocolError:  # no room in time
                    return False
            return received > count * size

        complete = await asyncio.gather(*(read_all() for _ in range(readers)))
        grown = measure_peak(gateway) - before
    assert any(complete)
    assert grown < 150 * MEGABYTE, f"grew by {grown // MEGABYTE} MB"  # all of them together have 288 MB


def open_slow_client(stack: Stack, key: str) -> httpx.AsyncClient:
    """Return a client whose system takes little of a response before the client reads it."""
    transport = httpx.AsyncHTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)])
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=stack.url, headers=headers, transport=transport)


async def collect(chunks: AsyncIterator[bytes], received: bytearray) -> None:
    async for chunk in chunks:
        received += chunk


async def test_results_that_break_off_are_incomplete_and_continue_at_the_next_line(stack: Stack, api: Api) -> None:
    """Here a revoked key breaks them off. A lack of room would, too."""
    name = f"results-{uuid4().hex[:8]}"
    key = await make_key(stack, name)
    async with open_client(stack, key) as client:
        batch_id = await make_large_batch(stack, client, 6, 4 * MEGABYTE)
        path = f"/v1/batches/{batch_id}/results"
        whole = (await client.http.get(path, timeout=60)).content
        async with open_slow_client(stack, key) as slow, slow.stream("GET", path, timeout=60) as response:
            chunks = response.aiter_raw()
            received = bytearray(await anext(chunks))
            (key_id,) = re.findall(r"key_\w+", (await run_keys(stack, "list", name)).stdout)
            assert (await run_keys(stack, "revoke", key_id)).returncode == 0

            async def is_refused() -> bool:
                return (await client.http.get("/v1/models")).status_code == 401

            await eventually(is_refused, "the key is revoked")
            with pytest.raises(httpx.RemoteProtocolError):
                await collect(chunks, received)
    kept = received[: received.rfind(b"\n") + 1]
    assert whole.startswith(received)
    async with open_client(stack, await make_key(stack, name)) as client:
        rest = await client.http.get(path, params={"from": kept.count(b"\n")}, timeout=60)
    assert kept + rest.content == whole
