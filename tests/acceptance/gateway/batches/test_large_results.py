"""Large results that break off can go on."""

import re
import socket
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.batch_results import read_results
from tests.support.api.batches import echo, submit_batch, wait_for_batch
from tests.support.api.large_outputs import enlarge_outputs
from tests.support.stacks.key_command import make_key, run_keys
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
